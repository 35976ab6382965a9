/** What an object carries in its metadata (doc/gitops.md). */

/** label: the source that has made it */
export const inventoryLabel = 'agent.gitlab.com/inventory'
/** annotation: the same, as the stock agent writes it: this one decides */
export const ownerAnnotation = 'config.k8s.io/owning-inventory'
/** annotation: of the manifest that was applied */
export const digestAnnotation = 'agent.gitlab.com/digest'
/** annotation, of the manifest: `confirm`, `never` or `allow` */
export const pruneAnnotation = 'agent.gitlab.com/prune'
/** annotation, of the manifest: `allow` */
export const replaceAnnotation = 'agent.gitlab.com/replace'
/** annotations of others with a value that says: never delete it */
export const keepAnnotations: Readonly<Record<string, string>> = {
  'client.lifecycle.config.k8s.io/deletion': 'detach',
  'cli-utils.sigs.k8s.io/on-remove': 'keep',
}
