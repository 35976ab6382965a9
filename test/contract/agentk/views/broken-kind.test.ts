import t from 'tap'
import { missingAssets } from '../../../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../../../dev/control-plane/control-plane.ts'
import { Warnings } from '../../../../src/agentk/modules/views/watch/events.ts'
import { Kinds } from '../../../../src/agentk/modules/views/watch/kinds.ts'
import { type Clock, systemClock } from '../../../../src/lib/clock.ts'
import { AggregatedApi } from '../../../support/aggregated-api.ts'
import { adminClient } from '../../../support/api-client.ts'
import { capturedLog } from '../../../support/captured-log.ts'
import { eventually } from '../../../support/eventually.ts'
import { KeptSink } from '../../../support/kept-sink.ts'

/** A kind that a real API server cannot list, or an API that does not answer, delays no other kind. */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'api')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`

const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
const version = (name: string, storage: boolean) => ({
  name,
  served: true,
  storage,
  schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
})
const queues = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'queues.p1.example.com' },
  spec: {
    group: 'p1.example.com',
    scope: 'Namespaced',
    names: { plural: 'queues', kind: 'Queue', singular: 'queue' },
    versions: [version('v1', true)],
  },
}
const key = 'p1.example.com/Queue'
const timeoutMs = 60_000

/** factor by which this clock is faster: 50 s take 6.3 s */
const speed = 8
const fastClock: Clock = {
  now: () => systemClock.now() * speed,
  after: (ms, action) => systemClock.after(ms / speed, action),
}

t.test('a broken conversion webhook, and an aggregated API that hangs', { skip, timeout: 300_000 }, async (t) => {
  const controlPlane = new ControlPlane({ assets, parts: 'api' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const { admin } = controlPlane
  const patch = async (body: unknown) => {
    const answer = await admin.request(`${definitions}/${queues.metadata.name}`, {
      method: 'PATCH',
      contentType: 'application/merge-patch+json',
      body,
    })
    t.equal(answer.status, 200, answer.body.slice(0, 300))
  }
  const service = { namespace: 'default', name: 'queue-operator' }
  const webhook = { conversionReviewVersions: ['v1'], clientConfig: { service } }
  const breakIt = () => patch({ spec: { conversion: { strategy: 'Webhook', webhook } } })
  const mendIt = () => patch({ spec: { conversion: { strategy: 'None', webhook: null } } })

  const frozen = await AggregatedApi.start(t, admin, 'frozen.example.com')
  frozen.answers = 'never'
  const other = await AggregatedApi.start(t, admin, 'other.example.com')
  await eventually(async () => (await other.isAvailable()) && !(await frozen.isAvailable()), { timeoutMs })

  await admin.create(definitions, queues)
  await eventually(() =>
    admin.create('/apis/p1.example.com/v1/namespaces/default/queues', {
      apiVersion: 'p1.example.com/v1',
      kind: 'Queue',
      metadata: { name: 'first' },
    }),
  )
  await patch({ spec: { versions: [version('v2', false), version('v1', true)] } })
  await breakIt()
  await eventually(
    async () => {
      const { status, body } = await admin.request('/apis/p1.example.com/v2/queues')
      if (status < 429 || !body.includes('queue-operator')) throw new Error(`${status}: ${body.slice(0, 300)}`)
    },
    { timeoutMs },
  )

  const sink = new KeptSink()
  const { log } = capturedLog()
  const components = { api: adminClient(t, controlPlane), sink, events: new Warnings(), log, clock: fastClock }
  const kinds = new Kinds({ ...components, random: Math.random }, { follow: {} })
  const stopping = new AbortController()
  const running = kinds.run(stopping.signal)
  t.teardown(() => {
    stopping.abort()
    return running
  })
  const frozenKey = 'frozen.example.com/*'
  const others = () => [...sink.states].filter(([kind, { is }]) => ![key, frozenKey].includes(kind) && is !== 'live')

  await eventually(() => sink.is(key) === 'aside', { timeoutMs })
  t.match(sink.states.get(key), { why: 'the API server answered 500', message: /conversion webhook.*queue-operator/ })
  t.strictSame(others(), [], 'all others are followed')
  t.ok(sink.names('Namespace').includes('default'))
  t.match(sink.states.get(frozenKey), { is: 'aside', why: 'its API is not available: FailedDiscoveryCheck' })
  t.notOk(
    [...sink.states].some(([kind]) => kind.startsWith('other.example.com/')),
    'it may answer each caller otherwise',
  )

  await mendIt()
  await eventually(() => sink.is(key) === 'live', { timeoutMs })
  t.strictSame(sink.names(key), ['default/first'])

  await breakIt()
  await eventually(() => sink.is(key) === 'aside', { timeoutMs })
  t.strictSame(sink.names(key), ['default/first'], 'what was known of it stays')
  t.strictSame(others(), [])
  await mendIt()
  await eventually(() => sink.is(key) === 'live', { timeoutMs })

  const gadget = 'other.example.com/Gadget'
  for (const status of [503, 500]) {
    other.answers = status
    await eventually(() => sink.is(gadget) === 'aside', { timeoutMs })
    t.match(sink.states.get(gadget), { why: 'its API is not available: FailedDiscoveryCheck' }, String(status))
    other.answers = 'well'
    await eventually(() => !sink.states.has(gadget), { timeoutMs })
  }
  t.ok(sink.states.has(frozenKey))
  frozen.answers = 'well'
  await eventually(() => [...sink.states.values()].every(({ is }) => is === 'live'), { timeoutMs })
})
