/** What people write on an object to say what may happen to it (doc/gitops.md). */

/** `confirm`: it is pruned with approval alone; `never`; `allow`: without, whatever its kind */
export const pruneAnnotation = 'agent.gitlab.com/prune'
/** `allow`: where only a new object could have what the manifest wants, it is deleted and made again */
export const replaceAnnotation = 'agent.gitlab.com/replace'
/** Of others, with the value that says: never delete it. */
export const keepAnnotations: Readonly<Record<string, string>> = {
  'client.lifecycle.config.k8s.io/deletion': 'detach',
  'cli-utils.sigs.k8s.io/on-remove': 'keep',
}
