import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import type { Finding } from '../../../../../../src/agentk/modules/gitops/finding.ts'
import { sourceOptions } from '../../../../../../src/agentk/modules/gitops/source-options.ts'
import { driftCounts, stateOfDrift } from '../../../../../../src/agentk/modules/gitops/state/drift-state.ts'
import { encoded } from '../../../../../../src/agentk/modules/gitops/state/state-push.ts'
import {
  DriftedObjectSchema,
  KeySchema,
  LeavingObjectSchema,
  LeftFieldSchema,
  ObjectTroubleSchema,
  SourceStateSchema,
  UnhealthyObjectSchema,
} from '../../../../../../src/proto/gen/gitops_states_pb.ts'
import { maxStateBytes } from '../../../../../../src/proto/gitops/limits.ts'
import { stateLists } from '../../../../../../src/proto/gitops/state-lists.ts'
import { Reader } from '../../../../../../src/proto/wire/wire.ts'

/** Bound of kas for one object in a list of a state. bytes */
const maxFieldBytes = 16 * 1024
const text = 'x'.repeat(1000)
const times = <T>(count: number, of: () => T) => Array.from({ length: count }, of)

t.test('a state fits, whichever of its lists is too long', async (t) => {
  const key = create(KeySchema, { kind: 'ConfigMap', name: text })
  const lists = {
    trouble: times(100, () => create(ObjectTroubleSchema, { text })),
    planned: times(100, () => key),
    orphan: times(100, () => key),
    leaving: times(100, () => create(LeavingObjectSchema, { text })),
    kept: times(100, () => create(LeavingObjectSchema, { text })),
    drifted: times(100, () => create(DriftedObjectSchema, { text, path: [text] })),
    unwatched: times(100, () => text),
    leftToOthers: times(100, () => create(LeftFieldSchema, { key, path: text })),
    unhealthy: times(100, () => create(UnhealthyObjectSchema, { key, text })),
    unlisted: times(100, () => text),
    environment: times(100, () => text),
  }
  t.strictSame(Object.keys(lists).sort(), stateLists.map(({ localName }) => localName).sort(), 'each list is tried')
  for (const [name, list] of Object.entries(lists)) {
    const bytes = encoded(create(SourceStateSchema, { source: '42-7', [name]: list }))
    t.ok(bytes.length <= maxStateBytes, `${name}: ${bytes.length}`)
    t.equal(fromBinary(SourceStateSchema, bytes).isCut, name !== 'environment', name)
  }
  const bytes = encoded(create(SourceStateSchema, { source: '42-7', ...lists }))
  t.ok(bytes.length <= maxStateBytes)
  t.equal(fromBinary(SourceStateSchema, bytes).isCut, true)
})

t.test('a state without lists is sent as it is, however long', async (t) => {
  const state = create(SourceStateSchema, { source: '42-7', problem: 'x'.repeat(2 * maxStateBytes) })
  t.strictSame(encoded(state), toBinary(SourceStateSchema, state))
})

t.test('drift of hostile names fits what kas takes of one object, and its numbers are whole', async (t) => {
  const wide = '\uffff'.repeat(5000)
  const finding: Finding = {
    key: { group: '', kind: 'ConfigMap', namespace: 'shop', name: wide },
    version: 'v1',
    file: wide,
    line: 1,
    kind: 'drifted',
    isDeleted: false,
    differences: times(20, () => ({ path: wide, kind: 'changed' as const })),
    more: 7,
    by: { manager: wide, operation: 'Update', time: 1 },
    since: 1,
    reason: wide,
    holdUntil: undefined,
    resourceVersion: '1',
  }
  const options = sourceOptions({}, { agentId: 42n, projectId: 7n, ownProject: 'platform/shop' })
  const known = times(300, () => ({ finding, decision: { kind: 'later' as const, at: 2 } }))
  const state = stateOfDrift(create(SourceStateSchema, { source: '42-7' }), { known, unwatched: [] }, options)
  t.match(driftCounts(state), { drifted: 300, notCompared: 0, wouldChange: 0 })
  t.equal(state.drifted.length, 100)
  t.match(state.drifted[0], { morePaths: 7, correctAtMs: 2n })
  t.match(state.drifted[10], { path: [], morePaths: 27 }, 'paths of the first ten alone')
  const reader = new Reader(encoded({ ...state, drifted: state.drifted.slice(0, 2) }))
  while (reader.next())
    if (reader.type === 2) t.ok(reader.bytes.length <= maxFieldBytes, `${reader.bytes.length} bytes`)
})
