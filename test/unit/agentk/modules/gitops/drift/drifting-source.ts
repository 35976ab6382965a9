import type { Test } from 'tap'
import type { Explanation } from '../../../../../../src/agentk/modules/gitops/drift/explanation.ts'
import { SourceDrift } from '../../../../../../src/agentk/modules/gitops/drift/source-drift.ts'
import { baselineOf } from '../../../../../../src/agentk/modules/gitops/drift/suspect.ts'
import { ClusterKinds } from '../../../../../../src/agentk/modules/gitops/live/cluster-kinds.ts'
import { liveObjectOf } from '../../../../../../src/agentk/modules/gitops/live/live-object.ts'
import type { InventoryEntry } from '../../../../../../src/agentk/modules/gitops/round.ts'
import { sourceOptions } from '../../../../../../src/agentk/modules/gitops/source-options.ts'
import { keyText } from '../../../../../../src/kubernetes/key.ts'
import type { KubernetesObject } from '../../../../../../src/kubernetes/object.ts'
import type { SourceBlock } from '../../../../../../src/proto/gitops/schema.ts'
import { capturedLog } from '../../../../../support/captured-log.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

/** Drift of one source with one object. The test gives the comparisons. */

export const key = { group: 'apps', kind: 'Deployment', namespace: 'shop', name: 'web' }
export const text = keyText(key)
export const manifest = { key, version: 'v1', object: {}, digest: 'd', file: 'web.yaml', line: 3 }
export const kinds = new ClusterKinds([])

export const own = {
  manager: 'agentk-42-7',
  operation: 'Apply',
  time: '2026-06-01T00:00:00Z',
  fieldsV1: { 'f:spec': {} },
}
export const editor = (time: string) => ({
  manager: 'kubectl-edit',
  operation: 'Update',
  time,
  fieldsV1: { 'f:spec': {} },
})

interface Given {
  readonly version?: string
  readonly uid?: string
  readonly generation?: number
  /** entries beside the source's */
  readonly others?: readonly object[]
  /** the source's entry; undefined: as after its last apply */
  readonly own?: object
}

/** The source's entry, without fields of others. */
export const applied = { ...own, fieldsV1: { 'f:spec': { 'f:replicas': {} } } }

export const metadata = ({
  version = '1',
  uid = 'u',
  generation = 1,
  others = [],
  own: entry = own,
}: Given): KubernetesObject => ({
  metadata: {
    uid,
    resourceVersion: version,
    generation,
    labels: { 'agent.gitlab.com/inventory': '42-7' },
    annotations: { 'config.k8s.io/owning-inventory': '42-7', 'agent.gitlab.com/digest': 'd' },
    managedFields: [entry, ...others],
  },
})
const manager = 'agentk-42-7'
export const liveOf = (given: Given) => liveObjectOf(metadata(given), manager)
export const ofLive = (given: Given) => ({
  live: liveOf(given),
  baseline: baselineOf(metadata(given), manager),
  holdUntil: undefined,
})

export const entry = (given: Partial<InventoryEntry> = {}): InventoryEntry => ({
  key,
  version: 'v1',
  wave: 0,
  uid: 'u',
  digest: 'd',
  fields: liveOf({}).fields,
  time: own.time,
  generation: 1,
  state: 'applied',
  reason: '',
  ...given,
})

export function begin(t: Test, { isSettling = false, ...block }: { isSettling?: boolean; drift?: object } = {}) {
  const clock = new ManualClock()
  const ending = new AbortController()
  t.teardown(() => ending.abort())
  const asked: string[] = []
  let [rounds, changes] = [0, 0]
  let held: Promise<void> | undefined
  const answer = {
    /** Holds the answers that are asked for from now on. @returns releases them */
    hold: () => {
      const { promise, resolve } = Promise.withResolvers<void>()
      held = promise
      return resolve
    },
  }
  const given: { explanation: Explanation | Error; wouldChange: boolean } = {
    explanation: { kind: 'deleted' },
    wouldChange: false,
  }
  const drift = new SourceDrift(
    {
      turns: { add: ({ run }) => void run(), leave: () => undefined },
      kept: { read: async () => manifest },
      explain: async (_, { isOnlyScaled }) => {
        asked.push(isOnlyScaled ? 'scaled' : keyText(key))
        await held
        if (given.explanation instanceof Error) throw given.explanation
        return given.explanation
      },
      wouldChange: async () => given.wouldChange,
      values: async () => ({ kind: 'notCompared', reason: 'busy' }),
      requestRound: () => rounds++,
      onChange: () => changes++,
      clock,
      log: capturedLog().log,
    },
    sourceOptions(block as SourceBlock, { agentId: 42n, projectId: 7n, ownProject: 'platform/shop' }),
    ending.signal,
  )
  if (!isSettling) drift.settled()
  const rounded = (of: InventoryEntry = entry(), isPaused = false) =>
    drift.roundEnds({ entries: new Map([[text, of]]), kinds, isPaused })
  const seen = (given: Given, of = key) => drift.seen(of, metadata(given), () => liveOf(given))
  return {
    drift,
    seen,
    clock,
    asked,
    given,
    rounded,
    answer,
    rounds: () => rounds,
    changes: () => changes,
    stop: () => ending.abort(),
  }
}

export const by = (clock: ManualClock, ago = 0) => ({
  manager: 'kubectl-edit',
  operation: 'Update',
  time: clock.now() - ago,
})
export const drifted = (given: Given, author: ReturnType<typeof by> | undefined, again?: number): Explanation => ({
  kind: 'drifted',
  of: ofLive(given),
  differences: [{ path: '.spec.replicas', kind: 'changed' }],
  more: 0,
  by: author,
  again,
})
export const changed = {
  version: '2',
  own: { ...own, fieldsV1: { 'f:data': {} } },
  others: [editor('2026-06-01T00:00:00Z')],
}
export const running = () => new AbortController().signal
