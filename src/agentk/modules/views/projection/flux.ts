import { type KubernetesObject, listAt, textAt } from '../../../../kubernetes/object.ts'
import { maxName, maxReferences } from './bounds.ts'
import { inGroup } from './metadata.ts'
import type { Projector, Reference } from './projector.ts'
import { suspendedOf } from './workloads.ts'

export const kustomizationKind = 'kustomize.toolkit.fluxcd.io/Kustomization'
export const helmReleaseKind = 'helm.toolkit.fluxcd.io/HelmRelease'

export const fluxKustomization: Projector = (object) => ({
  facts: [textAt(object, 'status.lastAppliedRevision'), suspendedOf(object)],
  references: inventoryOf(object),
})

export const fluxHelmRelease: Projector = (object) => {
  const [newest] = listAt(object, 'status.history')
  const [chart, version] = [textAt(newest, 'chartName'), textAt(newest, 'chartVersion')]
  return {
    facts: [chart && version ? `${chart}@${version}` : '', suspendedOf(object)],
    // older ones have no inventory
    references: [...targetOf(object), ...inventoryOf(object)],
  }
}

function targetOf(object: KubernetesObject): readonly Reference[] {
  const name = textAt(object, 'spec.targetNamespace')
  return name === '' ? [] : [{ relation: 'deploys into', kind: 'Namespace', namespace: '', name }]
}

function inventoryOf(object: KubernetesObject): readonly Reference[] {
  return listAt(object, 'status.inventory.entries')
    .slice(0, maxReferences)
    .flatMap((entry) => toReference(textAt(entry, 'id')))
}

/** `<namespace>_<name>_<group>_<Kind>`, as cli-utils writes it; a colon in a name is two underscores. */
function toReference(id: string): Reference[] {
  if (id.length > 4 * maxName) return []
  const [, namespace = '', name = '', group = '', kind = ''] = /^([^_]*)_(.+)_([^_]*)_([^_]+)$/.exec(id) ?? []
  return name ? [{ relation: 'deploys', kind: inGroup(group, kind), namespace, name: name.replaceAll('__', ':') }] : []
}
