import { create } from '@bufbuild/protobuf'
import {
  CountsSchema,
  type Key,
  KeySchema,
  ObjectTroubleSchema,
  Phase,
  type SourceState,
  SourceStateSchema,
} from '../../../../proto/gen/gitops_states_pb.ts'
import type { ApplyEnd, RoundEnd } from '../apply/apply-run.ts'
import type { InventoryEntry } from '../inventory/entry.ts'
import { type ManifestProblem, problemText } from '../manifests/manifest.ts'
import { keyText } from '../manifests/object-key.ts'
import type { Rehearsed } from '../rehearsal.ts'
import type { RoundDone } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'

/** Told of an object, or of a plan. */
const maxTold = 100
/** Of a text. */
const maxTextLength = 1000

/** How one source fares; changed by the source's work alone. */
export class SourceStatus {
  readonly #options: SourceOptions
  #state: SourceState

  constructor(options: SourceOptions, now: number) {
    this.#options = options
    const { id: source, project, name = '', environments: environment } = options
    this.#state = create(SourceStateSchema, {
      source,
      project,
      name,
      environment: [...environment],
      phase: Phase.WAITING,
      counts: {},
      atMs: BigInt(now),
    })
  }

  get state(): SourceState {
    return this.#state
  }

  get options(): SourceOptions {
    return this.#options
  }

  set(change: Partial<Pick<SourceState, 'phase' | 'wanted' | 'problem'>>, now: number): void {
    this.#state = { ...this.#state, ...change, atMs: BigInt(now) }
  }

  /** A commit is being brought: `objects` of them. */
  began(commit: string, objects: number, now: number): void {
    this.set({ phase: Phase.APPLYING, wanted: commit, problem: '' }, now)
    this.#state = { ...this.#state, counts: create(CountsSchema, { objects }), trouble: [], plan: '', planned: [] }
  }

  ended(end: ApplyEnd): void {
    const { counts } = this.#state
    if (counts && (end.is === 'applied' || end.is === 'unchanged')) counts[end.is] += 1
    else if (counts && end.is === 'failed') counts.failed += 1
  }

  refused(commit: string, problems: readonly ManifestProblem[], now: number): void {
    const [first] = problems
    const problem = first ? problemText(first).slice(0, maxTextLength) : ''
    this.set({ phase: Phase.REFUSED, wanted: commit, problem }, now)
    const trouble = problems
      .slice(0, maxTold)
      .map(({ file, line, text }) => create(ObjectTroubleSchema, { file, line, text: text.slice(0, maxTextLength) }))
    this.#state = { ...this.#state, trouble }
  }

  /** Nothing was written: what would be is told. */
  rehearsed(commit: string, { ends, leaving }: Rehearsed, now: number): void {
    const count = (...is: ApplyEnd['is'][]) => ends.filter(({ end }) => is.includes(end.is)).length
    const failed = count('failed')
    const problem = `dry_run_strategy: ${this.#options.dryRunStrategy}: nothing is written`
    this.set({ phase: failed > 0 ? Phase.FAILING : Phase.PAUSED, wanted: commit, problem }, now)
    const waiting = count('applied', 'waits', 'left')
    const counts = create(CountsSchema, { objects: ends.length, unchanged: count('unchanged'), failed, waiting })
    const moving = ends.filter(({ end }) => end.is !== 'unchanged')
    const trouble = moving.slice(0, maxTold).map(troubleOf)
    this.#state = { ...this.#state, counts, trouble, plan: '', planned: leaving.slice(0, maxTold).map(keyOf) }
  }

  done(commit: string, result: RoundDone, now: number): void {
    const { ends, entries, pruned, plan, planned, orphans, notes = [] } = result
    const wanted = new Set(ends.map(({ manifest }) => keyText(manifest.key)))
    const survivors = [...entries].filter(([text, { state }]) => !wanted.has(text) && state !== 'detached')
    const bad = ends.filter(({ end }) => end.is !== 'applied' && end.is !== 'unchanged')
    const isSynced = bad.length === 0
    const isHeld = plan !== '' && bad.every(({ end }) => end.is === 'waits' || isAsking(end))
    const phase = isHeld ? Phase.APPROVAL : isSynced ? Phase.SYNCED : Phase.FAILING
    const count = (is: ApplyEnd['is']) => ends.filter(({ end }) => end.is === is).length
    this.#state = {
      ...this.#state,
      phase,
      commit: isSynced ? commit : this.#state.commit,
      wanted: commit,
      problem: notes.join('; ').slice(0, maxTextLength),
      atMs: BigInt(now),
      counts: create(CountsSchema, {
        objects: ends.length,
        applied: count('applied'),
        unchanged: count('unchanged'),
        failed: count('failed'),
        waiting: count('waits') + count('left'),
        pruned: pruned.length,
        survivors: survivors.length,
        orphans: orphans.length,
      }),
      trouble: bad.slice(0, maxTold).map(troubleOf),
      plan,
      planned: planned.slice(0, maxTold).map(keyOf),
      orphan: orphans.slice(0, maxTold).map((key) => keyOf({ key, version: '' })),
    }
  }

  /** The configuration has it no longer: what stays of it, and why. */
  removed(result: RoundDone, now: number): void {
    this.done('', result, now)
    const stay = [...result.entries.values()].filter((entry) => !result.planned.includes(entry))
    const trouble = stay.slice(0, maxTold).map(({ key, version, reason }) => {
      return create(ObjectTroubleSchema, { key: keyOf({ key, version }), text: reason })
    })
    const problem = `the configuration has it no longer: ${result.entries.size} objects are left`
    this.#state = { ...this.#state, problem, trouble }
  }
}

/** It waits for approval. */
function isAsking(end: ApplyEnd): boolean {
  return end.is === 'failed' && end.problem.replaces !== undefined
}

function troubleOf({ manifest, end }: RoundEnd) {
  const { key, version, file, line } = manifest
  return create(ObjectTroubleSchema, {
    key: keyOf({ key, version }),
    text: textOf(end).slice(0, maxTextLength),
    file,
    line,
  })
}

function textOf(end: ApplyEnd): string {
  if (end.is === 'failed') return end.problem.text
  if (end.is === 'waits') return end.text
  return end.is === 'applied' ? 'it would be applied' : 'a newer commit has come'
}

function keyOf({ key, version }: Pick<InventoryEntry, 'key' | 'version'>): Key {
  return create(KeySchema, { ...key, version })
}
