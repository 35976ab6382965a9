import type { MessageInitShape } from '@bufbuild/protobuf'
import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { errorText, KasError } from '../../../../lib/errors.ts'
import type { RefusalSchema } from '../../../../proto/gen/gitops_preview_pb.ts'
import type { Caller } from '../../../caller.ts'
import { adoptingNow, adoptsStanding, checkRoom, nothingChosen } from '../build/commit-refusals.ts'
import type { KnownFinding } from '../drift/known-findings.ts'
import { SourceInventory, type SourceInventoryComponents } from '../inventory/source-inventory.ts'
import { refuserOf } from '../manifests/kind-ranks.ts'
import type { Manifest, RepositoryFile } from '../manifests/manifest.ts'
import { isParent } from '../manifests/parents.ts'
import type { Build, InventoryEntry, Refusal } from '../round.ts'
import type { ObjectRights } from '../state/object-rights.ts'
import { keyOf } from '../state/state-key.ts'
import { type Previewed, rankOf } from './answer.ts'
import { CallerView } from './caller-view.ts'
import { type ChangedObjectResult, ChangedObjects, type ShownObject } from './changed-objects.ts'
import { FieldRoom } from './field-room.ts'
import { type ChangedObject, Governors } from './governors.ts'
import { LeavingObjects } from './leaving-objects.ts'
import { pathWithoutValues } from './path-values.ts'
import type { PreviewedSource } from './previewed-source.ts'

/** Limit of objects that one preview compares, with two calls each; the others are not shown. */
const maxCompared = 2000
/** Limit of paths of an object that drifts. */
const maxDriftPaths = 20

export interface PreviewQuestion {
  readonly caller: Caller
  /** headers of all requests of the preview: name, value, name, value */
  readonly headers: readonly string[]
  readonly files: readonly RepositoryFile[]
  /** live values are shown */
  readonly values: boolean
}

/**
 * Computes what files would change in the cluster if they were the source's next commit, for a caller. Nothing is
 * written.
 *
 * @throws the connection's error, the build's error, or the signal's reason
 */
export async function previewChange(
  previewed: PreviewedSource,
  rights: Pick<ObjectRights, 'may' | 'rules'>,
  { caller, headers, files, values }: PreviewQuestion,
  signal: AbortSignal,
): Promise<Previewed> {
  const { claims, options } = previewed
  const source = { ...previewed, options: adoptingNow(options, claims) }
  const built = adoptsStanding(options, claims) ?? (await buildOf(source, files, signal))
  if ('problem' in built) return { objects: [], end: built }
  if (built.kind === 'refused') return refused(built)
  const own = previewed.inventory.own as SourceInventoryComponents['own'] // `load` writes nothing
  const inventory = await SourceInventory.load({ ...previewed.inventory, own }, source.options, signal)
  if (files.length === 0 && inventory.known.size === 0) return refused(nothingChosen(options))
  const entries = inventory.known
  const defined = new Governors({ manifests: built.manifests, changed: [] })
  const components = { rights, kinds: built.kinds, pluralOf: (key: ObjectKey) => defined.definitionOf(key)?.plural }
  const view = new CallerView(components, { caller, headers })
  const all = [...built.manifests.map(({ key }) => key), ...Array.from(entries.values(), ({ key }) => key)]
  const visible = await view.visible(all, signal)
  const isVisible = (text: string) => visible.has(text)
  const seen = built.manifests.filter(({ key }) => isVisible(keyText(key)))
  const changed = seen.filter((manifest) => isChanged(manifest, entries))
  const governors = new Governors({
    manifests: built.manifests,
    changed: await changedGovernors(built, source, entries, isVisible),
  })
  const asking = {
    visible: (keys: readonly ObjectKey[]) => view.visible(keys, signal),
    patchable: (keys: readonly ObjectKey[]) => view.patchable(keys, signal),
  }
  const fields = new FieldRoom(rankOf)
  const onShown = (object: ShownObject) => fields.add(object)
  const compared = { build: built, manifests: changed.slice(0, maxCompared), entries, governors }
  const comparing = { ...compared, values, onShown, ...asking }
  const results = await new ChangedObjects(source, comparing, signal).results()
  const leaving = { build: built, inventory, ends: endsOf(seen, results), isVisible, ...asking }
  const left = await new LeavingObjects(source, leaving, signal).results()
  const drifted = driftedObjects(source.known, seen, values)
  const objects = [...results.flatMap(({ shown }) => shown ?? []), ...left, ...drifted]
  const isCompared = results.length > 0 || left.length > 0
  const end = {
    objects: built.manifests.length,
    notCompared: built.manifests.length - seen.length,
    commit: own.commit,
    problem: [
      changed.length > maxCompared ? tooMany(changed.length - maxCompared) : '',
      view.unasked,
      (isCompared && source.interruption()) || '',
    ]
      .filter((text) => text !== '')
      .join('; '),
  }
  return { objects, end }
}

function tooMany(more: number): string {
  return `${more} more objects change: at most ${maxCompared} are compared at once`
}

/** @returns `problem`: the commit could be tried again, as by a round. @throws KasError; the signal's reason */
async function buildOf(
  { build, claims }: PreviewedSource,
  files: readonly RepositoryFile[],
  signal: AbortSignal,
): Promise<Build | Refusal | { readonly problem: string }> {
  try {
    return checkRoom(await build(files, signal), claims)
  } catch (error) {
    if (signal.aborted || error instanceof KasError) throw error
    return { problem: `the files could not be read or rendered: ${errorText(error)}` }
  }
}

/** True if the manifest is not the one that was applied last. */
function isChanged({ key, digest, version }: Manifest, entries: ReadonlyMap<string, InventoryEntry>): boolean {
  const entry = entries.get(keyText(key))
  return entry === undefined || entry.uid === '' || entry.digest !== digest || entry.version !== version
}

/**
 * Returns the objects of the change that decide on others. One that the caller may not get counts whenever the files
 * have it, as whether it changes must not show.
 */
async function changedGovernors(
  { manifests }: Build,
  { manifest: keptOf }: PreviewedSource,
  entries: ReadonlyMap<string, InventoryEntry>,
  isVisible: (text: string) => boolean,
): Promise<ChangedObject[]> {
  const governs = (key: ObjectKey) => isParent(key) || refuserOf(key) !== undefined
  const wanted = new Map(manifests.map((manifest) => [keyText(manifest.key), manifest]))
  const found: ChangedObject[] = []
  for (const [text, manifest] of wanted) {
    const { key } = manifest
    if (!governs(key) || (isVisible(text) && !isChanged(manifest, entries))) continue
    const kept = isVisible(text) ? await keptOf(text) : undefined
    found.push({ key, objects: [manifest.object, ...(kept ? [kept.object] : [])], hasLeft: false })
  }
  for (const [text, { key }] of entries) {
    if (!governs(key) || wanted.has(text) || !isVisible(text)) continue
    const kept = await keptOf(text)
    found.push({ key, objects: kept ? [kept.object] : [], hasLeft: true })
  }
  return found
}

/** Returns the ends of all objects that the caller may get, as a round would have them. */
function endsOf(seen: readonly Manifest[], results: readonly ChangedObjectResult[]) {
  const ends = new Map(results.map(({ manifest, end }) => [keyText(manifest.key), end]))
  return seen.map((manifest) => ({
    manifest,
    end: ends.get(keyText(manifest.key)) ?? { kind: 'unchanged' as const, live: undefined },
  }))
}

/** Returns what others have changed in objects that stay in Git: by paths, as these are known without a comparison. */
function driftedObjects(
  known: ReadonlyMap<string, KnownFinding>,
  seen: readonly Manifest[],
  values: boolean,
): ShownObject[] {
  const shown = (path: string) => (values ? path : pathWithoutValues(path))
  return seen.flatMap(({ key, version, file, line }) => {
    const finding = known.get(keyText(key))?.finding
    if (finding?.kind !== 'drifted') return []
    const { differences, more, by, isDeleted } = finding
    const author = { manager: by?.manager ?? '', operation: by?.operation ?? '' }
    const listed = differences.slice(0, maxDriftPaths)
    return [
      {
        key: keyOf({ key, version }),
        action: 'drifted',
        file,
        line,
        field: listed.map(({ path, kind }) => ({ path: shown(path), kind, ...author })),
        more: more + differences.length - listed.length,
        text: isDeleted ? 'it does not exist in the cluster' : '',
      },
    ]
  })
}

function refused({ problems }: Refusal): Previewed {
  const [first = { file: '', line: 0, text: '' }] = problems
  const others = problems.length > 1 ? `${first.text}; and ${problems.length - 1} more problems` : first.text
  const refusal: MessageInitShape<typeof RefusalSchema> = { ...first, text: others }
  return { objects: [], end: { refusal } }
}
