//! Scripts of Redis for limits, in Lua, each over one key. Time is the server's.

/// The scripts, in the order of their numbers below.
pub(crate) const SCRIPTS: &[&str] = &[BUCKET_SCRIPT, SLOTS_SCRIPT, BEAT_SCRIPT];

/// Charges a bucket and takes a lease: limit, needed, wanted and charged units → granted units, and thousandths that are left.
pub(crate) const BUCKET: usize = 0;
/// Takes or gives back slots for requests at one time: limit, gateway, needed and wanted slots, `1` to set without a check, channel, account →
/// slots that are held, and whether there were enough.
pub(crate) const SLOTS: usize = 1;
/// Tells that a gateway is there: gateway → the number of gateways.
pub(crate) const BEAT: usize = 2;

/// A key is there until its bucket is full. Its name has the limit, so that a new limit begins with a full bucket.
const BUCKET_SCRIPT: &str = r"
local limit, needed = tonumber(ARGV[1]), tonumber(ARGV[2])
local wanted, charged = tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local state = redis.call('HMGET', KEYS[1], 'level', 'at')
local level, at = tonumber(state[1]) or limit, tonumber(state[2]) or now
level = math.min(limit, level + math.max(0, now - at) * limit / 60000000)
level = math.min(limit, level - charged)
local granted = 0
if wanted > 0 and level >= needed then
  granted = math.min(wanted, math.floor(level))
  level = level - granted
end
redis.call('HSET', KEYS[1], 'level', string.format('%.6f', level), 'at', string.format('%.0f', math.max(at, now)))
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', (limit - level) * 60000 / math.max(limit, 1) + 1000))
return {granted, math.floor(level * 1000)}
";

/// A field for each gateway: its slots, and until when they count without an announcement. Where there are too few, the others are asked to give
/// back what they do not use.
const SLOTS_SCRIPT: &str = r"
local limit, me = tonumber(ARGV[1]), ARGV[2]
local needed, wanted = tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local all = redis.call('HGETALL', KEYS[1])
local held, others, is_enough = 0, 0, 1
for i = 1, #all, 2 do
  local slots, ends = string.match(all[i + 1], '(%d+):(%d+)')
  if tonumber(ends) < now then
    redis.call('HDEL', KEYS[1], all[i])
  elseif all[i] == me then
    held = tonumber(slots)
  else
    others = others + tonumber(slots)
  end
end
if ARGV[5] == '1' then
  held = wanted
elseif limit - others >= needed then
  held = math.min(wanted, limit - others)
else
  is_enough = 0
  if others > 0 then redis.call('PUBLISH', ARGV[6], me .. ' slots ' .. ARGV[7]) end
end
if held > 0 then
  redis.call('HSET', KEYS[1], me, string.format('%d:%.0f', held, now + 10000))
  redis.call('PEXPIRE', KEYS[1], 10000)
else
  redis.call('HDEL', KEYS[1], me)
end
return {held, is_enough}
";

/// A gateway that is not heard of for three seconds does not count.
const BEAT_SCRIPT: &str = r"
local now = redis.call('TIME')[1]
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. (now - 3))
redis.call('EXPIRE', KEYS[1], 10)
return {redis.call('ZCARD', KEYS[1])}
";
