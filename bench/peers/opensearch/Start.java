import java.net.InetAddress;
import java.nio.file.Path;
import org.codelibs.opensearch.runner.OpenSearchRunner;
import org.opensearch.common.settings.Settings;

/**
 * Nodes of OpenSearch in one process, until its standard input ends: `Start FOLDER NODES HTTP_PORT`; node n listens on HTTP_PORT + n - 1.
 * Nodes on one machine find each other, so the port is in the name of the cluster: another process is another cluster.
 */
public final class Start {
    private Start() {}

    public static void main(final String[] arguments) throws Exception {
        final Path folder = Path.of(arguments[0]);
        final int nodes = Integer.parseInt(arguments[1]);
        final int port = Integer.parseInt(arguments[2]);
        final OpenSearchRunner runner = new OpenSearchRunner();
        runner.onBuild((number, settings) -> configure(settings, port + number - 1));
        runner.build(OpenSearchRunner.newConfigs()
            .basePath(folder.toString())
            .clusterName("bench-" + port)
            .numOfNode(nodes)
            .pluginTypes("org.opensearch.knn.plugin.KNNPlugin"));
        runner.ensureYellow();
        System.out.println("{\"ready\":true}");
        System.out.flush();
        while (System.in.read() >= 0) {
            // the end of the input is the end of the nodes
        }
        runner.close();
        System.exit(0);
    }

    private static void configure(final Settings.Builder settings, final int port) {
        settings.put("http.port", port);
        settings.put("network.host", InetAddress.getLoopbackAddress().getHostAddress());
        settings.put("cluster.routing.allocation.disk.threshold_enabled", false);
    }
}
