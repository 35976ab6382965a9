import t, { type Test } from 'tap'
import { missingAssets } from '../../../dev/control-plane/assets.ts'
import type { KubernetesDiscoveryOptions } from '../../../src/membership/discovery/kubernetes/kubernetes-source.ts'
import { sharedControlPlane } from '../../support/control-plane/shared-control-plane.ts'
import { eventually } from '../../support/eventually.ts'
import { discovered, finds } from './discovered.ts'
import type { FrontFault } from './faulting-front.ts'
import { endpointsRule, KubernetesGround, slicesRule } from './kubernetes-ground.ts'

/** An API server that refuses, is slow or sends nonsense. The source keeps its last answer and does not loop. */

const missing = missingAssets(process.env.KUBEBUILDER_ASSETS, 'api')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`

const one = '10.3.0.1:8156'
const two = '10.3.0.2:8156'

t.test('discovery by a Kubernetes that fails', { skip, timeout: 180_000 }, async (t) => {
  const controlPlane = await sharedControlPlane(t)

  /** Starts a source that has found two hosts. */
  const begin = async (t: Test, options: Partial<KubernetesDiscoveryOptions> = {}) => {
    const ground = await KubernetesGround.start(t, controlPlane, [slicesRule, endpointsRule('kas-private')])
    await ground.addSlice({ name: 'one', hosts: ['10.3.0.1', '10.3.0.2'] })
    const source = await ground.source(options)
    await source.start()
    t.strictSame(source.current().addresses, [one, two])
    return { ground, source }
  }

  for (const status of [401, 410, 429, 500, 503]) {
    await t.test(`${status} to all`, async (t) => {
      const { ground, source } = await begin(t)
      ground.front.fault = () => ({ status })
      ground.front.cut()
      const { addresses, error } = await discovered(source, ({ stale }) => stale)
      t.strictSame(addresses, [one, two])
      t.match(error, new RegExp(`^HTTP ${status}`))
      const before = ground.front.requests.length
      await eventually(() => enough(ground.front.requests.length - before, 3))
      await ground.changeSlice('one', ['10.3.0.1'])
      ground.front.fault = () => undefined
      await discovered(source, finds(one))
    })

    await t.test(`${status} to watches alone`, async (t) => {
      const { ground, source } = await begin(t)
      ground.front.fault = ({ watch }) => (watch ? { status } : undefined)
      ground.front.cut()
      await ground.changeSlice('one', ['10.3.0.1'])
      await discovered(source, ({ addresses }) => addresses.join() === one)
      ground.front.fault = () => undefined
      await discovered(source, finds(one))
      await ground.changeSlice('one', ['10.3.0.2'])
      await discovered(source, finds(two))
    })
  }

  await t.test('403 to all: neither kind', async (t) => {
    const { ground, source } = await begin(t)
    ground.front.fault = () => ({ status: 403 })
    const { addresses } = await discovered(source, ({ stale }) => stale)
    t.strictSame(addresses, [one, two])
    ground.front.fault = () => undefined
    await ground.changeSlice('one', ['10.3.0.1'])
    await discovered(source, finds(one))
  })

  await t.test('403 to watches of slices alone: Endpoints', async (t) => {
    const { ground, source } = await begin(t)
    await ground.addEndpoints([{ addresses: [{ ip: '10.3.0.3' }] }])
    ground.front.fault = ({ kind, watch }) => (kind === 'endpointslices' && watch ? { status: 403 } : undefined)
    ground.front.cut()
    await discovered(source, finds('10.3.0.3:8156'))
  })

  await t.test('403 to slices that had answered, and Endpoints that are empty', async (t) => {
    const { ground, source } = await begin(t, { slicesRetryMs: 60_000 })
    ground.front.fault = ({ kind }) => (kind === 'endpointslices' ? { status: 403 } : undefined)
    ground.front.cut()
    const { addresses, error } = await discovered(
      source,
      (found) => found.error?.includes('Endpoints are empty') ?? false,
    )
    t.strictSame(addresses, [one, two], 'what was found is kept')
    t.equal(error, 'EndpointSlices are not allowed any more, and Endpoints are empty')
    ground.front.fault = () => undefined
    await ground.changeSlice('one', ['10.3.0.1'])
    await discovered(source, finds(one))
    t.strictSame(
      source.lines.filter(({ msg }) => String(msg).includes('uses Endpoints')),
      [],
    )
  })

  await t.test('a server that asks to be left alone for a while', async (t) => {
    const { ground, source } = await begin(t, { firstRetryMs: 1, maxRetryMs: 300 })
    ground.front.fault = () => ({ status: 429, headers: { 'retry-after': '3600' } })
    await discovered(source, ({ stale }) => stale)
    const at = performance.now()
    const before = ground.front.requests.length
    await eventually(() => enough(ground.front.requests.length - before, 2))
    t.ok(performance.now() - at >= 300, 'it waits as long as it may, not as long as it is told')
    ground.front.fault = () => undefined
    await discovered(source, finds(one, two))
  })

  await t.test('slow, but in time', async (t) => {
    const { ground, source } = await begin(t)
    ground.front.fault = () => ({ delayMs: 300 })
    await ground.changeSlice('one', ['10.3.0.1'])
    await discovered(source, finds(one))
    t.strictSame(source.lines, [])
  })

  await t.test('too slow', async (t) => {
    const { ground, source } = await begin(t, { requestTimeoutMs: 200 })
    ground.front.fault = ({ watch }) => (watch ? undefined : { delayMs: 60_000 })
    const { addresses, error } = await discovered(source, ({ stale }) => stale)
    t.strictSame(addresses, [one, two])
    t.equal(error, 'no answer within 200 ms')
    await t.test('its watch still tells', async () => {
      await ground.changeSlice('one', ['10.3.0.1'])
      await discovered(source, ({ addresses }) => addresses.join() === one)
    })
    ground.front.fault = () => undefined
    await discovered(source, finds(one))
  })

  await t.test('watches that end at once', async (t) => {
    const { ground, source } = await begin(t, { relistMs: 60_000 })
    ground.front.fault = ({ watch }) => (watch ? { lines: '' } : undefined)
    ground.front.cut()
    const before = ground.front.requests.length
    const at = performance.now()
    await eventually(() => enough(ground.front.requests.length - before, 4))
    t.ok(performance.now() - at >= 300, 'they are not opened in a loop')
    ground.front.fault = () => undefined
    await ground.changeSlice('one', ['10.3.0.1'])
    await discovered(source, finds(one))
  })

  const nonsense: Record<string, string> = {
    'an event without an object': '{"type":"ADDED"}\n',
    'an event with half an object': '{"type":"MODIFIED","object":{"metadata":null}}\n',
    'a failure in the stream': '{"type":"ERROR","object":{"kind":"Status","code":500,"message":"by the front"}}\n',
    'an error without an object': '{"type":"ERROR"}\n',
    'an end of history in the stream': '{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}\n',
    'an object that is no slice': '{"type":"ADDED","object":{"metadata":{"name":"x","namespace":"y"},"endpoints":7}}\n',
    'no JSON': 'hello\n',
    'half a line': '{"type":"ADD',
  }
  for (const [named, lines] of Object.entries(nonsense)) {
    await t.test(`a watch that sends ${named}`, async (t) => {
      const { ground, source } = await begin(t)
      let sent = 0
      ground.front.fault = ({ watch }) => (watch && ++sent <= 3 ? ({ lines } satisfies FrontFault) : undefined)
      ground.front.cut()
      await eventually(() => enough(sent, 3))
      await ground.changeSlice('one', ['10.3.0.1'])
      await discovered(source, finds(one))
    })
  }

  await t.test('a list that is no list', async (t) => {
    const { ground, source } = await begin(t)
    ground.front.fault = ({ watch }) => (watch ? undefined : { lines: '{"kind":"Status"}' })
    const { addresses } = await discovered(source, ({ stale }) => stale)
    t.strictSame(addresses, [one, two])
    ground.front.fault = () => ({ lines: '<html>' })
    await discovered(source, ({ error }) => error?.includes('JSON') ?? false)
    ground.front.fault = () => undefined
    await discovered(source, finds(one, two))
  })

  await t.test('connections do not pile up', async (t) => {
    const { ground, source } = await begin(t, { relistMs: 50 })
    await eventually(() => enough(ground.front.requests.length, 40))
    t.ok(ground.front.connections <= 6, `${ground.front.connections} connections after twenty lists`)
    await source.stop()
    await eventually(() => enough(-ground.front.connections, 0))
  })
})

function enough(found: number, wanted: number): void {
  if (found < wanted) throw new Error(`${found} of ${wanted}`)
}
