import {
  type KubernetesObject,
  kindOf,
  listAt,
  nameOf,
  namespaceOf,
  textAt,
  textField,
  uidOf,
} from '../../../src/kubernetes/object.ts'

/** limit of StatefulSets to which a claim's name is matched */
const maxSets = 16
const setKind = 'apps/StatefulSet'

/**
 * Returns each object with its parent. The parent is the controller, else the first owner, if uid, kind and name match
 * an object of the same namespace or of none. A claim without owners has the StatefulSet whose template it is named
 * after.
 */
export function parentsOf(
  objects: readonly KubernetesObject[],
): readonly (readonly [child: KubernetesObject, parent: KubernetesObject])[] {
  const byUid = new Map(objects.map((one) => [uidOf(one), one]))
  const sets = new Map<string, KubernetesObject>()
  for (const one of objects) if (kindOf(one) === setKind) sets.set(`${namespaceOf(one)}\n${nameOf(one)}`, one)
  return objects.flatMap((child) => {
    const owner = ownerOf(child)
    const parent = owner ? agreed(child, owner, byUid) : setOf(child, sets)
    return parent && parent !== child ? [[child, parent] as const] : []
  })
}

function ownerOf(child: KubernetesObject): KubernetesObject | undefined {
  const owners = listAt(child, 'metadata.ownerReferences')
  return owners.find(({ controller }) => controller === true) ?? owners[0]
}

function agreed(child: KubernetesObject, owner: KubernetesObject, byUid: ReadonlyMap<string, KubernetesObject>) {
  const found = byUid.get(textField(owner, 'uid'))
  if (!found) return undefined
  const isNear = namespaceOf(found) === '' || namespaceOf(found) === namespaceOf(child)
  return isNear && kindOf(found) === kindOf(owner) && nameOf(found) === textField(owner, 'name') ? found : undefined
}

/** Finds the StatefulSet of a claim, which is named `<template>-<set>-<n>`; names of both may contain dashes. */
function setOf(child: KubernetesObject, sets: ReadonlyMap<string, KubernetesObject>): KubernetesObject | undefined {
  if (kindOf(child) !== 'PersistentVolumeClaim') return undefined
  const name = nameOf(child)
  const end = name.lastIndexOf('-')
  if (end < 0 || !/^\d{1,10}$/.test(name.slice(end + 1))) return undefined
  let tried = 0
  for (let dash = name.indexOf('-'); dash > 0 && dash < end && tried < maxSets; dash = name.indexOf('-', dash + 1)) {
    const set = sets.get(`${namespaceOf(child)}\n${name.slice(dash + 1, end)}`)
    const template = name.slice(0, dash)
    if (set && listAt(set, 'spec.volumeClaimTemplates').some((one) => textAt(one, 'metadata.name') === template))
      return set
    tried++
  }
  return undefined
}
