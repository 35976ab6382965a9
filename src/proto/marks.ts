/** What objects in clusters bear by which GitOps and views know them. Imports nothing. */

/** Label: the GitOps source that made the object, by its id. Lists and watches select by it. */
export const inventoryLabel = 'agent.gitlab.com/inventory'
