import type { MessageInitShape } from '@bufbuild/protobuf'
import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { type KubernetesObject, textAt } from '../../../../kubernetes/object.ts'
import type { PreviewedObjectSchema } from '../../../../proto/gen/gitops_preview_pb.ts'
import { dryApply, unknownLive } from '../apply/dry-apply.ts'
import { Scalers } from '../apply/scalers.ts'
import { TakeOver } from '../apply/take-over.ts'
import { DryLanes } from '../live/dry-lanes.ts'
import { placesNamed, valueBelow } from '../live/field-places.ts'
import { entriesOf } from '../live/managed-fields.ts'
import { pathText } from '../live/managed-path.ts'
import type { ApplyProblem } from '../live/refusal.ts'
import type { Manifest } from '../manifests/manifest.ts'
import type { ApplyEnd, LeftOut, WaveGraph } from '../round.ts'
import { keyOf } from '../state/state-key.ts'
import { type Candidate, type CandidatesInput, readCandidates } from './candidates.ts'
import { addLiveValues, clusterChanges, takenFields, withoutDrift } from './cluster-change.ts'
import type { FieldChange } from './field-change.ts'
import { gitChanges } from './git-change.ts'
import { pathWithoutValues } from './path-values.ts'
import type { PreviewedSource } from './previewed-source.ts'
import { refusalText } from './refusal-words.ts'
import { type IgnoredBy, shownFields } from './shown-fields.ts'

export type ShownObject = MessageInitShape<typeof PreviewedObjectSchema>

/** Objects that are read, tried and compared together: their live states and answers are in memory at once. */
const maxAtOnce = 8

export interface ChangedInput extends CandidatesInput {
  /** manifests that differ from the commit in the cluster, and whose objects the caller may get */
  readonly manifests: readonly Manifest[]
  /** live values are shown */
  readonly values: boolean
  /** Returns the objects that the caller may patch, by `keyText`. */
  readonly patchable: (keys: readonly ObjectKey[]) => Promise<ReadonlySet<string>>
  /** Called with each object that is shown, before the next ones are compared. */
  readonly onShown: (object: ShownObject) => void
}

/** Object after its dry run. */
export interface ChangedObjectResult {
  readonly manifest: Manifest
  /** as of a round; `applied` also if that is not verified */
  readonly end: ApplyEnd
  /** undefined: nothing of it changes */
  readonly shown: ShownObject | undefined
}

/** Computes the changes of objects, by dry runs. */
export class ChangedObjects {
  readonly #source: PreviewedSource
  readonly #input: ChangedInput
  readonly #takeOver: TakeOver
  readonly #dryLanes: DryLanes
  readonly #scalers: Scalers
  readonly #signal: AbortSignal

  constructor(source: PreviewedSource, input: ChangedInput, signal: AbortSignal) {
    this.#source = source
    this.#input = input
    this.#takeOver = new TakeOver(source.lane, source.options)
    this.#dryLanes = new DryLanes(source)
    this.#scalers = new Scalers({ lane: source.lane, ownLane: source.ownLane, ...input.build })
    this.#signal = signal
  }

  /** @returns in the order of the manifests. @throws the connection's error, or the signal's reason */
  async results(): Promise<ChangedObjectResult[]> {
    const { manifests } = this.#input
    const found: ChangedObjectResult[] = []
    for (let i = 0; i < manifests.length; i += maxAtOnce) {
      const results = await this.#resultsOf(manifests.slice(i, i + maxAtOnce))
      for (const { shown } of results) if (shown) this.#input.onShown(shown)
      found.push(...results)
    }
    return found
  }

  async #resultsOf(manifests: readonly Manifest[]): Promise<ChangedObjectResult[]> {
    const { build, entries } = this.#input
    const { lane, ownLane, claims, options } = this.#source
    const candidates = await readCandidates(this.#source, manifests, this.#input, this.#signal)
    const tried = candidates.filter(({ untried }) => untried === undefined)
    const answers = new Map<string, KubernetesObject>()
    const replaced = new Set<string>()
    const hasHiddenOwners = new Set(tried.flatMap((one) => (one.hasHiddenOwners ? [one.text] : [])))
    const live = new Map(tried.flatMap(({ text, found }) => (found === undefined ? [] : [[text, found] as const])))
    const ends = await dryApply(
      {
        lane,
        ownLane,
        claims,
        dryLanes: this.#dryLanes,
        scalers: this.#scalers,
        onAnswer: (key, object) => answers.set(keyText(key), object),
        onReplaced: (key) => replaced.add(keyText(key)),
        checksOwners: ({ key }) => !hasHiddenOwners.has(keyText(key)),
      },
      {
        manifests: tried.map(({ manifest }) => manifest),
        graph: looseGraph(tried.map(({ text }) => text)),
        kinds: build.kinds,
        entries,
        live,
        isByServer: true,
      },
      options,
      this.#signal,
    )
    const failing = tried.filter(({ text }) => ends.get(text)?.kind === 'failed')
    const patchable = await this.#input.patchable(failing.map(({ manifest }) => manifest.key))
    return candidates.map((candidate) => {
      const { manifest, text, untried } = candidate
      if (untried !== undefined) return this.#unverified(candidate, untried)
      const end = ends.get(text) ?? { kind: 'left' as const }
      if (end.kind === 'failed') return this.#failed(candidate, end.problem, patchable.has(text))
      if (end.kind !== 'applied') return { manifest, end, shown: undefined }
      if (end.uncompared !== undefined) return this.#unverified(candidate, end.uncompared)
      if (replaced.has(text)) return { manifest, end, shown: this.#recreated(candidate) }
      return { manifest, end, shown: this.#verified(candidate, answers.get(text) ?? {}, end.leftOut) }
    })
  }

  #failed(candidate: Candidate, problem: ApplyProblem, mayPatch: boolean): ChangedObjectResult {
    const { manifest } = candidate
    const end = { kind: 'failed', problem } as const
    const { values } = this.#input
    const showsText = mayPatch && values
    if (problem.replaces !== undefined)
      return { manifest, end, shown: this.#shown(candidate, 'waits', showsText ? problem.text : waitsText) }
    const sibling = problem.kind === 'foreign' ? this.#siblingOwner(candidate) : undefined
    if (sibling !== undefined)
      return this.#unverified(candidate, `source ${sibling} has it: it moves if the same change takes it out there`)
    const excuse = this.#input.governors.excuse(manifest, problem)
    if (excuse) return { ...this.#unverified(candidate, excuse.text), ...(excuse.hasLeft && { end }) }
    if (problem.freed && problem.isTakenAsNew) return this.#unverified(candidate, freedText)
    const own = values ? problem.text : pathWithoutValues(problem.text)
    const text = ownTexts.has(problem.kind) ? own : refusalText(problem, { mayPatch, values })
    return { manifest, end, shown: this.#shown(candidate, 'fails', text) }
  }

  /** Returns the source that owns the object, if its next commit comes with the same change. */
  #siblingOwner({ manifest, found }: Candidate): string | undefined {
    return this.#source.siblings(manifest.key).find((id) => id === found?.owner)
  }

  /** Shows Git's side alone. */
  #unverified(candidate: Candidate, text: string): ChangedObjectResult {
    const { manifest, base } = candidate
    const end = { kind: 'applied', live: unknownLive } as const
    const action = this.#actionOf(candidate)
    const changes = gitChanges(action === 'changed' ? base : undefined, manifest.object)
    if (action === 'changed' && changes.length === 0) return { manifest, end, shown: undefined }
    const ofGit = changes.map((change) => ({ ...change, before: undefined }))
    return { manifest, end, shown: { ...this.#shown(candidate, action, text, ofGit), unverified: true } }
  }

  #recreated(candidate: Candidate): ShownObject {
    const { manifest, base, live } = candidate
    const changes = gitChanges(base, manifest.object)
    return this.#shown(candidate, 'recreated', onlyNew, live ? addLiveValues(changes, live) : changes)
  }

  #verified(candidate: Candidate, dry: KubernetesObject, leftOut: readonly LeftOut[] = []): ShownObject | undefined {
    const { manifest, base, live, found } = candidate
    const action = this.#actionOf(candidate)
    if (!live || !found) return this.#shown(candidate, action, '', gitChanges(undefined, manifest.object))
    const { manager } = this.#source.options
    const compared = { base, next: manifest.object, dry, live, manager }
    const ignored = this.#ignored(candidate, leftOut)
    const ignoredPaths = new Set(ignored.map(({ path }) => pathText(path)))
    const changes = this.#ownChanges(candidate, clusterChanges(compared)).filter(
      ({ path }) => !ignoredPaths.has(pathText(path)),
    )
    if (action === 'adopted') changes.push(...takenFields(compared, this.#takeOver.predecessorsOf(found)))
    if (action === 'changed' && changes.length === 0 && ignored.length === 0) return undefined
    return this.#shown(candidate, action, '', changes, ignored)
  }

  /** Without a manifest to compare with, leaves out what is known to be drift. */
  #ownChanges({ text, base }: Candidate, changes: readonly FieldChange[]): readonly FieldChange[] {
    const known = base ? undefined : this.#source.known.get(text)?.finding
    return withoutDrift(changes, new Set(known?.differences.map(({ path }) => path)))
  }

  /** Returns the values of this change that rules leave to others. */
  #ignored(
    { manifest: { object }, base, live }: Candidate,
    leftOut: readonly LeftOut[],
  ): (FieldChange & { readonly ignoredBy: IgnoredBy })[] {
    return leftOut.flatMap(({ path: name, manager, rule }) => {
      const [place] = placesNamed(object, name)
      if (!place) return []
      const at = (value: unknown) => place.reduce(valueBelow, value)
      const after = at(object)
      if (base && JSON.stringify(at(base)) === JSON.stringify(after)) return []
      const path = place.map((step) => {
        if (step.kind === 'field') return `f:${step.name}`
        if (step.kind === 'key') return `k:${JSON.stringify(step.key)}`
        return step.kind === 'value' ? `v:${JSON.stringify(step.value)}` : `i:${step.index}`
      })
      return [
        {
          path,
          kind: 'changed' as const,
          before: at(live),
          after,
          ignoredBy: { manager, operation: operationOf(live, manager), rule },
        },
      ]
    })
  }

  #actionOf({ text, found, live }: Candidate): 'created' | 'adopted' | 'changed' {
    if (found === undefined || !live) return found === null ? 'changed' : 'created'
    const uid = this.#input.entries.get(text)?.uid ?? ''
    const isOwn = found?.owner === this.#source.options.id || (found?.owner === '' && uid !== '' && uid === found.uid)
    return isOwn ? 'changed' : 'adopted'
  }

  #shown(
    { manifest }: Candidate,
    action: string,
    text: string,
    changes: readonly FieldChange[] = [],
    ignored: readonly (FieldChange & { readonly ignoredBy: IgnoredBy })[] = [],
  ): ShownObject {
    const of = { key: manifest.key, values: this.#input.values }
    const [fields, others] = [shownFields(changes, of), shownFields(ignored, of)]
    return {
      key: keyOf(manifest),
      action,
      file: manifest.file,
      line: manifest.line,
      field: [...fields.listed],
      more: fields.more,
      ignored: [...others.listed],
      moreIgnored: others.more,
      text,
    }
  }
}

const onlyNew = 'only a new object can have what Git wants: it is deleted and made again'
const waitsText = 'it is to be deleted and made again, and that waits for approval'
const freedText = 'others have changed fields that are in its way: agentk takes these back first'
/** Problems whose texts agentk writes itself, without values. */
const ownTexts: ReadonlySet<string> = new Set(['foreign', 'conflict', 'unserved'])

function operationOf(live: KubernetesObject | undefined, manager: string): string {
  return textAt(
    entriesOf(live).find((entry) => entry.manager === manager),
    'operation',
  )
}

/** Returns a graph without dependencies: nothing is made, so no object waits for others. */
function looseGraph(order: readonly string[]): WaveGraph {
  const none: readonly string[] = []
  return { order, named: () => none, stepBefore: () => none, dependents: () => none, wave: () => 0 }
}
