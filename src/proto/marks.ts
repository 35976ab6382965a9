/** What objects in clusters bear by which GitOps, views and GitLab know them. Imports nothing. */

/** Label: the GitOps source that made the object, by its id. Lists and watches select by it. */
export const inventoryLabel = 'agent.gitlab.com/inventory'

/** Labels, GitLab's own: the environment that an object is deployed to. */
export const projectLabel = 'app.gitlab.com/project_id'
export const slugLabel = 'app.gitlab.com/environment_slug'
