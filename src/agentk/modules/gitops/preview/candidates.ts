import { keyName, keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import type { KubernetesObject } from '../../../../kubernetes/object.ts'
import { objectPath } from '../../../../kubernetes/path.ts'
import { isTooLarge } from '../../../cluster/object-list.ts'
import { maxEventBytes as maxBytes } from '../../../cluster/watch-request.ts'
import { ignoredFields, readRules } from '../apply/ignored-fields.ts'
import { type LiveObject, liveObjectOf } from '../live/live-object.ts'
import { isNestedTooDeeply } from '../live/nesting.ts'
import { type Manifest, mayHaveField, type ObjectTree } from '../manifests/manifest.ts'
import type { Build, InventoryEntry } from '../round.ts'
import { type Governors, ownersOf } from './governors.ts'
import { namedObjects } from './named-objects.ts'
import type { PreviewedSource } from './previewed-source.ts'

/** Object that differs in Git, with what is known before its dry run. */
export interface Candidate {
  readonly manifest: Manifest
  /** `keyText` */
  readonly text: string
  /** manifest in the cluster; undefined: none, or it is not kept */
  readonly base: ObjectTree | undefined
  /** undefined: it does not exist, or cannot be read */
  readonly live: KubernetesObject | undefined
  /** undefined: it does not exist; null: it cannot be read */
  readonly found: LiveObject | null | undefined
  /** reason for which no dry run is sent; undefined: one is */
  readonly untried: string | undefined
  /** it names owners that the caller may not get: the answer does not depend on whether these exist */
  readonly hasHiddenOwners: boolean
}

export interface CandidatesInput {
  readonly build: Build
  /** entries of the inventory, by `keyText` */
  readonly entries: ReadonlyMap<string, InventoryEntry>
  readonly governors: Governors
  /** Returns the objects that the caller may get, by `keyText`. */
  readonly visible: (keys: readonly ObjectKey[]) => Promise<ReadonlySet<string>>
}

/**
 * Reads objects from the cluster, as the source's account.
 *
 * @param manifests - of objects that the caller may get. @throws the connection's error, or the signal's reason
 */
export async function readCandidates(
  source: PreviewedSource,
  manifests: readonly Manifest[],
  input: CandidatesInput,
  signal: AbortSignal,
): Promise<Candidate[]> {
  const { options } = source
  const rules = readRules(options.drift.ignore, options.manager)
  const read = await Promise.all(
    manifests.map(async (manifest) => {
      const text = keyText(manifest.key)
      const kept = await source.manifest(text)
      const base = kept && kept.digest === input.entries.get(text)?.digest ? kept.object : undefined
      return { manifest, text, base, live: await readLive(source, manifest, input, signal) }
    }),
  )
  const absent = read.filter(({ live }) => live === undefined).map(({ manifest }) => manifest)
  const untriedOf = await untriedObjects(absent, input)
  const hiddenOwners = await hiddenOwnerManifests(manifests, input)
  return read.map(({ live, ...rest }) => {
    const { manifest, text } = rest
    const { key } = manifest
    const found = live ? liveObjectOf(live, options.manager, ignoredFields(rules, { key })) : live
    const untried = live === undefined ? untriedOf(manifest) : undefined
    return { ...rest, live: live ?? undefined, found, untried, hasHiddenOwners: hiddenOwners.has(text) }
  })
}

/** @returns undefined: it does not exist; null: it cannot be read */
async function readLive(
  { lane }: PreviewedSource,
  { key, version }: Manifest,
  { build: { kinds } }: CandidatesInput,
  signal: AbortSignal,
): Promise<KubernetesObject | undefined | null> {
  const kind = kinds.find(key, version) ?? kinds.find(key)
  if (!kind) return kinds.isStale(key.group) ? null : undefined
  if (kind.isNamespaced !== (key.namespace !== '')) return undefined // the API server refuses it
  try {
    const { status, body } = await lane.json('GET', objectPath(kind, key), undefined, signal, { maxBytes })
    if (status === 404) return undefined
    return status === 200 && !isNestedTooDeeply(body) ? (body as KubernetesObject) : null
  } catch (error) {
    if (!isTooLarge(error)) throw error
    return null
  }
}

/**
 * Returns a function with the reason for which an object that does not exist is not tried. The answer would show whether
 * something exists that the caller may not get: its namespace, its definition, or what it names.
 */
async function untriedObjects(
  absent: readonly Manifest[],
  { governors, visible: ask }: CandidatesInput,
): Promise<(manifest: Manifest) => string | undefined> {
  const namespaces = [...new Set(absent.flatMap(({ key: { namespace } }) => (namespace === '' ? [] : [namespace])))]
  const definitions = absent.flatMap(({ key }) => governors.definitionOf(key)?.key ?? [])
  const visible = await ask([...namespaces.map(namespaceKey), ...definitions, ...absent.flatMap(namedObjects)])
  return (manifest) => {
    const { key } = manifest
    const definition = governors.definitionOf(key)?.key
    if (definition && !visible.has(keyText(definition))) return 'you may not get the definition of its kind'
    if (key.namespace !== '' && !visible.has(keyText(namespaceKey(key.namespace))))
      return `you may not get namespace ${key.namespace}`
    const hidden = namedObjects(manifest).find((one) => !visible.has(keyText(one)))
    return hidden && `you may not get ${keyName(hidden)}, which it names`
  }
}

/** Returns, by `keyText`, the manifests with owners that the caller may not get. */
async function hiddenOwnerManifests(
  manifests: readonly Manifest[],
  { build: { kinds }, visible: ask }: CandidatesInput,
): Promise<ReadonlySet<string>> {
  const owned = manifests.filter((manifest) => mayHaveField(manifest, 'ownerReferences'))
  const owners = owned.map((manifest) => {
    const keys = ownersOf(manifest).map((owner) =>
      (kinds.find(owner)?.isNamespaced ?? true) ? owner : { ...owner, namespace: '' },
    )
    return { text: keyText(manifest.key), keys }
  })
  const visible = await ask(owners.flatMap(({ keys }) => keys))
  return new Set(owners.flatMap(({ text, keys }) => (keys.every((key) => visible.has(keyText(key))) ? [] : [text])))
}

function namespaceKey(name: string): ObjectKey {
  return { group: '', kind: 'Namespace', namespace: '', name }
}
