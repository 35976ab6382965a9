import t from 'tap'
import type { ApiLane } from '../../../../../../src/agentk/cluster/background-requests.ts'
import { DriftWatches } from '../../../../../../src/agentk/modules/gitops/drift/drift-watches.ts'
import { ExplainTurns } from '../../../../../../src/agentk/modules/gitops/drift/explain-turns.ts'
import { followDrift } from '../../../../../../src/agentk/modules/gitops/drift/follow-drift.ts'
import { SharedBytes } from '../../../../../../src/agentk/modules/gitops/files/kept-files.ts'
import { ClusterKinds } from '../../../../../../src/agentk/modules/gitops/live/cluster-kinds.ts'
import { fieldsHash } from '../../../../../../src/agentk/modules/gitops/live/managed-fields.ts'
import type { Manifest } from '../../../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import type { InventoryEntry } from '../../../../../../src/agentk/modules/gitops/round.ts'
import { sourceOptions } from '../../../../../../src/agentk/modules/gitops/source-options.ts'
import { keyText } from '../../../../../../src/kubernetes/key.ts'
import { RateLimit } from '../../../../../../src/lib/rate-limit.ts'
import { capturedLog } from '../../../../../support/captured-log.ts'
import { eventually } from '../../../../../support/eventually.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'
import { leaf, object, ownEntry } from './managed.ts'

const key = { group: '', kind: 'ConfigMap', namespace: 'shop', name: 'web' }
const text = keyText(key)
const own = { 'f:data': { 'f:a': leaf } }
const manifest: Manifest = {
  key,
  version: 'v1',
  object: { metadata: { name: 'web', namespace: 'shop' }, data: { a: '1' } },
  digest: 'd1',
  file: 'a.yaml',
  line: 1,
}
const entry: InventoryEntry = {
  key,
  version: 'v1',
  wave: 0,
  uid: 'u1',
  digest: 'd1',
  fields: fieldsHash(own),
  time: '2026-06-01T00:00:00Z',
  generation: 0,
  state: 'applied',
  reason: '',
}
const resource = {
  kind: 'ConfigMap',
  plural: 'configmaps',
  isNamespaced: true,
  hasStatus: false,
  names: { singular: '', short: [], categories: [] },
  verbs: ['get', 'list', 'watch', 'patch', 'delete'],
}
const kindsOf = (version: string, isStale = false) =>
  new ClusterKinds([{ group: '', version, isStale, resources: [resource] }])

t.test(
  'a kind that nobody serves in the version of Git is read again: once it is, the object is compared',
  async (t) => {
    const clock = new ManualClock()
    const ending = new AbortController()
    t.teardown(() => ending.abort())
    const served = { now: kindsOf('v2') }
    const asked: string[] = []
    let rounds = 0
    const nothing = () => undefined
    const handed: string[] = []
    const onRead = (of: typeof key, live: object) => void handed.push(`${of.name} ${JSON.stringify(live).length > 2}`)
    const lane: ApiLane = {
      json: async (method, path) => {
        if (path.startsWith('/apis/')) return { status: 403, body: {} } // definitions and APIServices: the core group is known
        asked.push(`${method} ${path.split('?')[0]}`)
        return { status: 200, body: object({ data: { a: '1' } }, [ownEntry(own)]) }
      },
    }
    const { log } = capturedLog()
    const drift = followDrift(
      {
        watches: new DriftWatches({ clock, random: () => 0.5 }),
        turns: new ExplainTurns(clock),
        pace: new RateLimit(clock, { perSecond: 1, burst: 1 }),
        kinds: { current: async () => served.now },
        room: new SharedBytes(1e6, () => 1),
        clock,
        random: () => 0.5,
        log,
      },
      {
        client: { json: lane.json, send: () => ({ abort: () => undefined }) as never },
        lane,
        ownLane: lane,
        scanLane: lane,
      },
      { requestRound: () => rounds++, onChange: nothing, onSeen: nothing, onRead, onLeft: nothing },
      sourceOptions({}, { agentId: 42n, projectId: 7n, ownProject: 'platform/shop' }),
      ending.signal,
    )
    drift.settled()
    const { signal } = ending
    drift.roundBegins()
    drift.roundEnds({ manifests: [manifest], entries: new Map([[text, entry]]), kinds: kindsOf('v2'), isPaused: false })
    await clock.pass(500)
    await eventually(() => drift.known.size === 1)
    const reason = 'nobody serves ConfigMap in version v1 of its group'
    t.match(drift.known.get(text), { finding: { kind: 'notCompared', reason }, decision: { kind: 'left' } })
    t.strictSame(await drift.values(text, signal), { kind: 'notCompared', reason })
    served.now = kindsOf('v2', true)
    t.equal(await drift.checkAll(signal), 1)
    t.match(drift.known.get(text)?.finding.reason, 'the server of the group')
    t.strictSame([asked, rounds], [[], 0])

    served.now = kindsOf('v1')
    t.equal(await drift.checkAll(signal), 1)
    t.equal(drift.known.size, 0)
    t.ok(rounds > 0, 'its end has the collection watched again')
    const path = '/api/v1/namespaces/shop/configmaps/web'
    t.strictSame(asked, [`PATCH ${path}`, `GET ${path}`])
    t.strictSame(handed, ['web true'], 'others get the object that was read')
  },
)
