import { keyName, type ObjectKey } from '../../../../kubernetes/key.ts'
import { kindKey } from '../../../../kubernetes/kind.ts'
import { isDefinition, isNamespace } from '../manifests/parents.ts'

/** Texts, by code of the reason, in place of those that name or count other objects. */
export const textsOfOthers: Readonly<Record<string, string>> = {
  pruneLimit: 'prune_limit',
  childStays: 'its deletion would also delete an object that stays',
  parentUndecided: 'an object that would delete it, too, is not decided yet',
  withChild: 'its deletion also deletes an object that waits for approval',
  withParent: 'the deletion of an object that waits for approval also deletes it',
}

/** Kinds whose controllers delete more, by `kindKey`. */
const deleters: Readonly<Record<string, string>> = {
  'kustomize.toolkit.fluxcd.io/Kustomization':
    'with spec.prune, its controller deletes all objects that it has applied; they are not listed here',
  'helm.toolkit.fluxcd.io/HelmRelease': 'its controller uninstalls the release; its objects are not listed here',
  'argoproj.io/Application':
    'with its finalizer, its controller deletes all objects that it has made; they are not listed here',
  'argoproj.io/ApplicationSet':
    'its Applications are deleted with it, and the objects that they have made; these are not listed here',
}

/** Returns why more is deleted with an object than is listed; empty: nothing more is. */
export function moreText(key: ObjectKey): string {
  const hidden = 'objects that you may not get are not listed, and can make it wait for approval'
  if (isNamespace(key)) return `all objects in ${keyName(key)} are deleted with it; ${hidden}`
  if (isDefinition(key)) return `all objects of its kind are deleted with it; ${hidden}`
  return deleters[kindKey(key.group, key.kind)] ?? ''
}
