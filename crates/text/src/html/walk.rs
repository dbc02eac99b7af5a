//! Visits the nodes of a page in document order.

use ego_tree::NodeRef;
use scraper::Node;

/// Called for every node.
pub(super) trait Visitor<'a> {
    /// Called before the children of `node`; they are visited if it returns true.
    fn enter(&mut self, node: NodeRef<'a, Node>) -> bool;
    /// Called after the children of `node`, if [`enter`](Visitor::enter) returned true.
    fn leave(&mut self, node: NodeRef<'a, Node>);
}

/// Visits `root` and everything in it. Without recursion, because no limit bounds how deeply a page nests elements.
pub(super) fn walk<'a>(root: NodeRef<'a, Node>, visitor: &mut impl Visitor<'a>) {
    let mut node = root;
    loop {
        if visitor.enter(node) {
            if let Some(child) = node.first_child() {
                node = child;
                continue;
            }
            visitor.leave(node);
        }
        while node.next_sibling().is_none() || node.id() == root.id() {
            let Some(parent) = node.parent().filter(|_| node.id() != root.id()) else { return };
            node = parent;
            visitor.leave(node);
        }
        if let Some(next) = node.next_sibling() {
            node = next;
        }
    }
}
