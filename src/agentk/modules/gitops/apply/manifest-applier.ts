import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { builtIn } from '../../../../kubernetes/kind.ts'
import { type KubernetesObject, textAt } from '../../../../kubernetes/object.ts'
import { objectPath } from '../../../../kubernetes/path.ts'
import { errorText } from '../../../../lib/errors.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import type { ClusterKinds } from '../live/cluster-kinds.ts'
import { holdsOf } from '../live/deletion.ts'
import { absentOf } from '../live/lacked.ts'
import type { LiveObject } from '../live/live-object.ts'
import type { ApplyProblem } from '../live/refusal.ts'
import { marked, replaceAnnotation } from '../manifests/annotations.ts'
import { lossOfReplaced, withLoss } from '../manifests/losses.ts'
import { type Manifest, mayHaveField } from '../manifests/manifest.ts'
import { isParent } from '../manifests/parents.ts'
import { isCleanedUp } from '../manifests/run-once.ts'
import type { ApplyEnd, InventoryEntry } from '../round.ts'
import type { Applier, ApplyOutcome, ApplyRequest } from './applier.ts'
import { ownerProblem } from './owners.ts'
import { bringAgain, isReplaceable, type ReplaceRequest, type Trial, untriedProblem } from './replacement.ts'
import type { Verdict } from './verdict.ts'

export interface ManifestApplierComponents {
  readonly applier: Pick<Applier, 'apply'>
  /** `replaceObject` */
  readonly replace: (request: ReplaceRequest, superseded: AbortSignal, signal: AbortSignal) => Promise<ApplyOutcome>
  /** `tryMaking` */
  readonly tryMaking: (request: ApplyRequest, signal: AbortSignal) => Promise<Trial>
  /** acts as the source's account */
  readonly lane: ApiLane
  /** returns the kinds, with this one if it is served. @param isDefined - this run has applied its definition */
  readonly kindsWith: (key: ObjectKey, version: string, isDefined: boolean) => Promise<ClusterKinds>
  /** true: the owners that a manifest names are read before the apply; absent: always */
  readonly checksOwners?: (manifest: Manifest) => boolean
  /** saves in the inventory, at once, that a run-once object was applied */
  readonly remember: (manifest: Manifest, end: ApplyEnd) => Promise<void>
}

export interface ManifestApplierInput {
  readonly id: string
  readonly kinds: ClusterKinds
  /** by `keyText`: entries of the inventory */
  readonly entries: ReadonlyMap<string, InventoryEntry>
  /** by `keyText`; null: it cannot be read */
  readonly live: ReadonlyMap<string, LiveObject | null>
  /** aborts when a newer commit has come */
  readonly superseded: AbortSignal
}

/** Facts about one manifest. */
interface Given {
  /** undefined: Git has changed it, or it is as it was applied */
  readonly verdict: Verdict | undefined
  /** the run has applied the definition of its kind */
  readonly isDefined: boolean
}

interface AppliedManifest {
  readonly end: ApplyEnd
  /** as the API server has answered; absent: it was not applied */
  readonly object?: KubernetesObject
}

/** Message of the API server about an object in a namespace that is being deleted. */
const isOfEnding = /because it is being terminated/

/** Applies single objects of a commit: each is marked, checked, sent, and replaced if Git allows that. */
export class ManifestApplier {
  readonly #components: ManifestApplierComponents
  readonly #input: ManifestApplierInput
  readonly #signal: AbortSignal
  /** by namespace that is being deleted: what blocks its deletion */
  readonly #holds = new Map<string, Promise<string>>()

  constructor(components: ManifestApplierComponents, input: ManifestApplierInput, signal: AbortSignal) {
    this.#components = components
    this.#input = input
    this.#signal = signal
  }

  /** Applies one object. @throws the signal's reason; any other error is the end of this object */
  async apply(manifest: Manifest, { verdict, isDefined }: Given): Promise<AppliedManifest> {
    const { key, version } = manifest
    const { id, entries } = this.#input
    const text = keyText(key)
    const found = this.#input.live.get(text)
    if (found === null) return failed({ kind: 'unavailable', text: 'it cannot be read' })
    const kinds = this.#input.kinds.find(key, version)
      ? this.#input.kinds
      : await this.#components.kindsWith(key, version, isDefined)
    const kind = kinds.find(key, version)
    const problemOf = (problem: ApplyProblem) => {
      const absent = absentOf(problem, manifest, kinds)
      return failed({ ...problem, ...(absent && { absent }) })
    }
    if (!kind) {
      return problemOf({ kind: 'unserved', text: `nobody serves ${key.kind} in version ${version} of its group` })
    }
    if (kind.isNamespaced !== (key.namespace !== '')) {
      return failed({ kind: 'invalid', text: kind.isNamespaced ? 'it has no namespace' : 'its kind has no namespaces' })
    }
    const object = marked(manifest, { inventory: id, owner: id })
    if (isEncrypted(object))
      return failed({ kind: 'invalid', text: 'it is encrypted by SOPS, which is not decrypted here' })
    const uid = entries.get(text)?.uid ?? ''
    try {
      const orphaned =
        mayHaveField(manifest, 'ownerReferences') &&
        (this.#components.checksOwners?.(manifest) ?? true) &&
        (await ownerProblem({ lane: this.#components.lane, kinds }, { key, object }, this.#signal))
      if (orphaned) return problemOf(orphaned)
      const outcome = await this.#applyOrReplace({ key, kind, object, live: found, uid })
      if ('problem' in outcome) {
        const { problem } = outcome
        const holds = isOfEnding.test(problem.text) ? await this.#namespaceHolds(key) : ''
        return problemOf(holds === '' ? problem : { ...problem, text: `${problem.text}: ${holds}` })
      }
      const { live, undone, overwritten = [], leftOut, uncompared } = outcome
      // admission may have added the time after which the cluster deletes it
      const isOnce = isCleanedUp(key, object) || isCleanedUp(key, outcome.object)
      const end: ApplyEnd = {
        kind: 'applied',
        live,
        ...(undone && { undone }),
        ...(overwritten.length > 0 && { overwritten }),
        ...(verdict?.kind === 'write' && verdict.finding && { corrected: verdict.finding }),
        ...(leftOut && { leftOut }),
        ...(uncompared !== undefined && { uncompared }),
        ...(isOnce && { runsOnce: true }),
      }
      if (isOnce) await this.#components.remember(manifest, end)
      return { end, object: outcome.object }
    } catch (error) {
      this.#signal.throwIfAborted()
      return failed({ kind: 'unavailable', text: errorText(error) })
    }
  }

  /** Tries an object as a new one that the API server refuses as a change. @returns undefined: another cause is known */
  async #tryMaking({ places = [], refuser }: ApplyProblem, request: ApplyRequest): Promise<Trial | undefined> {
    if (places.length === 0 || refuser !== undefined) return undefined
    return await this.#components.tryMaking(request, this.#signal)
  }

  async #applyOrReplace(request: ApplyRequest): Promise<ApplyOutcome> {
    const { applier, replace } = this.#components
    const outcome = await applier.apply(request, this.#signal)
    if (!('problem' in outcome)) return outcome
    const { problem } = outcome
    const isBadObject = problem.kind === 'invalid' && request.live !== undefined
    if (problem.kind !== 'immutable' && !isBadObject) return outcome
    if (isReplaceable(request.object)) {
      return await replace({ ...request, problem }, this.#input.superseded, this.#signal)
    }
    const trial = isBadObject ? await this.#tryMaking(problem, request) : { kind: 'taken' as const }
    if (trial?.kind === 'untried') return { problem: untriedProblem(problem, trial) }
    if (trial?.kind !== 'taken') return outcome
    const { wayOut, text } = problem
    const taken = { ...problem, ...(isBadObject && { isTakenAsNew: true as const }) }
    if (wayOut !== undefined) return { problem: { ...taken, text: `${text}; ${wayOut}` } }
    const again = isParent(request.key) ? bringAgain : `${replaceAnnotation}: allow on it has it deleted and made again`
    return { problem: { ...taken, text: withLoss(`${text}; ${again}`, lossOfReplaced(request.key)) } }
  }

  /** Reads why a namespace that is being deleted still exists; empty: not known. */
  #namespaceHolds({ namespace }: ObjectKey): Promise<string> {
    const read = async () => {
      const path = objectPath(builtIn.namespaces, { name: namespace })
      const { status, body } = await this.#components.lane.json('GET', path, undefined, this.#signal)
      return status === 200 ? holdsOf(body as KubernetesObject) : ''
    }
    const known = this.#holds.get(namespace) ?? read()
    this.#holds.set(namespace, known)
    return known
  }
}

/** True if SOPS has encrypted the object; the kind of the SOPS operator is applied as it is. */
function isEncrypted(object: KubernetesObject): boolean {
  return textAt(object, 'sops.mac') !== '' && object.kind !== 'SopsSecret'
}

function failed(problem: ApplyProblem): AppliedManifest {
  return { end: { kind: 'failed', problem } }
}
