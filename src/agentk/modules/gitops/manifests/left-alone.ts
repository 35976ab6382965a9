import { keyName, keyText } from '../../../../kubernetes/key.ts'
import { entryAt, type KubernetesObject } from '../../../../kubernetes/object.ts'
import { type Manifest, mayHaveField } from './manifest.ts'

const ssa = 'kustomize.toolkit.fluxcd.io/ssa'
const reconcile = 'kustomize.toolkit.fluxcd.io/reconcile'
const fluxForce = 'kustomize.toolkit.fluxcd.io/force'
const syncOptions = 'argocd.argoproj.io/sync-options'

/** Options of Argo CD without effect here, and the advice for each. */
const argoOptions: Readonly<Record<string, string>> = {
  'Replace=true': 'agent.gitlab.com/replace: allow makes it again where only a new object can have it',
  'Force=true': 'agent.gitlab.com/replace: allow makes it again where only a new object can have it',
  'ServerSideApply=false': 'every object is applied server-side',
  'CreateNamespace=true': 'a Namespace is a manifest of the source',
}

/** Limit of notes for one source. */
const maxNotes = 20

/**
 * Returns when annotations of Flux keep an object from being applied: `always`, or `present`: while it exists.
 *
 * @returns undefined: it is applied like others
 */
export function leftAlone(manifest: Manifest): 'always' | 'present' | undefined {
  if (!mayHaveField(manifest, ssa) && !mayHaveField(manifest, reconcile)) return undefined
  const { object } = manifest
  if (isLeftAlone(object)) return 'always'
  return has(object, ssa, 'ifnotpresent') ? 'present' : undefined
}

/** True if an annotation or a label of Flux keeps the object from being applied, in its manifest or in the cluster. */
export function isLeftAlone(object: KubernetesObject): boolean {
  return has(object, ssa, 'ignore') || has(object, reconcile, 'disabled')
}

/** @param value - in lower case */
function has(object: KubernetesObject, name: string, value: string): boolean {
  return ['annotations', 'labels'].some((place) => entryAt(object, `metadata.${place}`, name).toLowerCase() === value)
}

/** Returns notes about objects that only an annotation in the cluster keeps from being applied. */
export function leftAloneNotes(
  manifests: readonly Manifest[],
  live: ReadonlyMap<string, { readonly isLeftAlone: boolean } | null>,
): string[] {
  const left = manifests.filter((one) => live.get(keyText(one.key))?.isLeftAlone && leftAlone(one) !== 'always')
  const notes = left.map(({ key }) => `${keyName(key)} is not applied, as its annotation of Flux in the cluster says`)
  const more = notes.length - maxNotes
  return more > 0 ? [...notes.slice(0, maxNotes), `and ${more} more that Flux's annotation keeps`] : notes
}

/** Returns notes about annotations of other tools that have no effect here, or another one. */
export function annotationNotes(manifests: readonly Manifest[]): string[] {
  const notes = manifests.flatMap((manifest) => {
    const left = leftAlone(manifest)
    const name = keyName(manifest.key)
    if (left === 'always') return [`${name} is not applied, as its annotation of Flux says`]
    const force =
      mayHaveField(manifest, fluxForce) && annotation(manifest.object, fluxForce).toLowerCase() === 'enabled'
    const advice = [...(force ? [argoOptions['Force=true'] as string] : []), ...argoAdvice(manifest)]
    return [...new Set(advice)].map((text) => `${name} has an annotation without effect here: ${text}`)
  })
  const more = notes.length - maxNotes
  return more > 0 ? [...notes.slice(0, maxNotes), `and ${more} more annotations of other tools`] : notes
}

function argoAdvice(manifest: Manifest): string[] {
  if (!mayHaveField(manifest, syncOptions)) return []
  const options = annotation(manifest.object, syncOptions).split(',')
  return options.flatMap((option) => argoOptions[option.trim()] ?? [])
}

function annotation(object: KubernetesObject, name: string): string {
  return entryAt(object, 'metadata.annotations', name)
}
