import { entryAt, type KubernetesObject } from '../../../../kubernetes/object.ts'
import { inventoryLabel } from '../../../../proto/marks.ts'
import type { Manifest, ObjectTree } from './manifest.ts'

export { inventoryLabel } from '../../../../proto/marks.ts'

/** Labels of an inventory's ConfigMaps, and of nothing else: of which source, of which agent. */
export const sourceLabel = 'agent.gitlab.com/gitops-source'
export const agentLabel = 'agent.gitlab.com/gitops-agent'
/** Annotation, the stock agent's own: whose object it is. */
export const ownerAnnotation = 'config.k8s.io/owning-inventory'
/** Annotation: of the manifest that was applied last. */
export const digestAnnotation = 'agent.gitlab.com/digest'

/** The manifest's object with our marks, which no manifest brings of its own. */
export function marked({ object, digest }: Manifest, of: { inventory: string; owner: string }): ObjectTree {
  const metadata = object.metadata as ObjectTree
  const labels = { ...(metadata.labels as ObjectTree | undefined), [inventoryLabel]: of.inventory }
  const marks = { [ownerAnnotation]: of.owner, [digestAnnotation]: digest }
  const annotations = { ...(metadata.annotations as ObjectTree | undefined), ...marks }
  return { ...object, metadata: { ...metadata, labels, annotations } }
}

/** What people write on an object to say what may happen to it (doc/gitops.md). */

/** `confirm`: it is pruned with approval alone; `never`; `allow`: without, whatever its kind */
export const pruneAnnotation = 'agent.gitlab.com/prune'
/** `allow`: where only a new object could have what the manifest wants, it is deleted and made again */
export const replaceAnnotation = 'agent.gitlab.com/replace'
/** a list: `Prune=false,Delete=confirm` */
const argoSyncOptions = 'argocd.argoproj.io/sync-options'

/** What other tools take for: never delete it. Each reads the value as that tool does. */
const protections: readonly ((object: KubernetesObject) => boolean)[] = [
  (object) => annotation(object, 'client.lifecycle.config.k8s.io/deletion') === 'detach',
  (object) => annotation(object, 'cli-utils.sigs.k8s.io/on-remove') === 'keep',
  (object) => hasSyncOption(object, 'false'),
  (object) => isDisabled(object, 'kustomize.toolkit.fluxcd.io/prune'),
  (object) => isDisabled(object, 'kustomize.toolkit.fluxcd.io/reconcile'),
  (object) => annotation(object, 'helm.sh/resource-policy').trim().toLowerCase() === 'keep',
]

/**
 * What the metadata of an object says of its deletion: `never`, with approval alone (`confirm`), or without, whatever its
 * kind (`allow`); the strictest of what it says. Empty: nothing. What people have written else counts as `confirm`.
 */
export function pruneOf(object: KubernetesObject): string {
  if (protections.some((isProtected) => isProtected(object))) return 'never'
  const own = annotation(object, pruneAnnotation)
  return own !== 'never' && hasSyncOption(object, 'confirm') ? 'confirm' : own
}

function isDisabled(object: KubernetesObject, name: string): boolean {
  return ['annotations', 'labels'].some(
    (place) => entryAt(object, `metadata.${place}`, name).toLowerCase() === 'disabled',
  )
}

function hasSyncOption(object: KubernetesObject, value: string): boolean {
  const options = annotation(object, argoSyncOptions).split(',')
  return options.some((option) => [`Prune=${value}`, `Delete=${value}`].includes(option.trim()))
}

function annotation(object: KubernetesObject, name: string): string {
  return entryAt(object, 'metadata.annotations', name)
}
