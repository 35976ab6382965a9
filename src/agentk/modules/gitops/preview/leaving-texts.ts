import { keyName, type ObjectKey } from '../../../../kubernetes/key.ts'
import { kindKey } from '../../../../kubernetes/kind.ts'
import { isDefinition, isNamespace } from '../manifests/parents.ts'

/** Texts, by code of the reason, in place of those that name or count other objects. */
export const textsOfOthers: Readonly<Record<string, string>> = {
  pruneLimit: 'prune_limit',
  childStays: 'an object that stays would go with it',
  parentUndecided: 'it goes with an object that is not decided upon now',
  withChild: 'an object that waits goes with it',
  withParent: 'it goes with an object that waits',
}

/** Kinds whose controllers delete more, by `kindKey`. */
const deleters: Readonly<Record<string, string>> = {
  'kustomize.toolkit.fluxcd.io/Kustomization':
    'with spec.prune, its controller deletes all that it has applied, which is not listed here',
  'helm.toolkit.fluxcd.io/HelmRelease': 'its controller uninstalls the release, whose objects are not listed here',
  'argoproj.io/Application':
    'with its finalizer, its controller deletes all that it has made, which is not listed here',
  'argoproj.io/ApplicationSet': 'its Applications go with it, and what they have made, which is not listed here',
}

/** Returns why more is deleted with an object than is listed; empty: nothing more is. */
export function moreText(key: ObjectKey): string {
  const hidden = 'what you may not get is not listed, and may make it wait for approval'
  if (isNamespace(key)) return `all that is in ${keyName(key)} goes with it; ${hidden}`
  if (isDefinition(key)) return `all objects of its kind go with it; ${hidden}`
  return deleters[kindKey(key.group, key.kind)] ?? ''
}
