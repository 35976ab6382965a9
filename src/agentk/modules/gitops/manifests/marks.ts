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
