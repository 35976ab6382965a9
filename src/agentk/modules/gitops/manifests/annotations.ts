import { entryAt, type KubernetesObject } from '../../../../kubernetes/object.ts'
import { inventoryLabel } from '../../../../proto/marks.ts'
import type { Manifest, ObjectTree } from './manifest.ts'

export { inventoryLabel } from '../../../../proto/marks.ts'

/** Labels of an inventory's ConfigMaps, and of nothing else: id of the source, number of the agent. */
export const sourceLabel = 'agent.gitlab.com/gitops-source'
export const agentLabel = 'agent.gitlab.com/gitops-agent'
/** Annotation, also the stock agent's: id of the source that owns the object. */
export const ownerAnnotation = 'config.k8s.io/owning-inventory'
/** Annotation: digest of the manifest that was applied last. */
export const digestAnnotation = 'agent.gitlab.com/digest'

/** Returns the manifest's object with agentk's marks, which no manifest may contain. */
export function marked({ object, digest }: Manifest, of: { inventory: string; owner: string }): ObjectTree {
  const metadata = object.metadata as ObjectTree
  const labels = { ...(metadata.labels as ObjectTree | undefined), [inventoryLabel]: of.inventory }
  const marks = { [ownerAnnotation]: of.owner, [digestAnnotation]: digest }
  const annotations = { ...(metadata.annotations as ObjectTree | undefined), ...marks }
  return { ...object, metadata: { ...metadata, labels, annotations } }
}

/** Annotations with which people say what may happen to an object (doc/guide/gitops.md). */

/** `confirm`: pruned only with approval; `never`: never pruned; `allow`: pruned without approval, whatever its kind */
export const pruneAnnotation = 'agent.gitlab.com/prune'
/** `allow`: deleted and made again if only a new object can have what the manifest wants */
export const replaceAnnotation = 'agent.gitlab.com/replace'
/** a list: `Prune=false,Delete=confirm` */
const argoSyncOptions = 'argocd.argoproj.io/sync-options'

/** Marks of other tools for an object that is never to be deleted. Each is read as that tool reads it. */
const protections: readonly ((object: KubernetesObject) => boolean)[] = [
  (object) => annotation(object, 'client.lifecycle.config.k8s.io/deletion') === 'detach',
  (object) => annotation(object, 'cli-utils.sigs.k8s.io/on-remove') === 'keep',
  (object) => hasSyncOption(object, 'false'),
  (object) => isDisabled(object, 'kustomize.toolkit.fluxcd.io/prune'),
  (object) => isDisabled(object, 'kustomize.toolkit.fluxcd.io/reconcile'),
  (object) => annotation(object, 'helm.sh/resource-policy').trim().toLowerCase() === 'keep',
]

/**
 * Returns what the metadata of an object says about its deletion: `never`, only with approval (`confirm`), or without
 * approval, whatever its kind (`allow`). The strictest mark counts. Any other text counts as `confirm`; empty: no mark.
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
