/** Labels of objects in clusters by which GitOps, views and GitLab know them. This file imports nothing. */

/** Label with the id of the GitOps source that made the object. Lists and watches select by it. */
export const inventoryLabel = 'agent.gitlab.com/inventory'

/** GitLab's own labels: the environment to which an object is deployed. */
export const projectLabel = 'app.gitlab.com/project_id'
export const slugLabel = 'app.gitlab.com/environment_slug'
