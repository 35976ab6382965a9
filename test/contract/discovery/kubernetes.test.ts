import { copyFile } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { missingAssets } from '../../../dev/control-plane/assets.ts'
import { sharedControlPlane } from '../../support/control-plane/shared-control-plane.ts'
import { eventually } from '../../support/eventually.ts'
import { discovered, finds } from './discovered.ts'
import { discoverySuite } from './discovery-suite.ts'
import { endpointsRule, KubernetesGround, slicesRule } from './kubernetes-ground.ts'

/** The source on a real API server: the objects that it reads, and the rights that it needs. */

const missing = missingAssets(process.env.KUBEBUILDER_ASSETS, 'api')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`

t.test('discovery by Kubernetes', { skip, timeout: 180_000 }, async (t) => {
  const controlPlane = await sharedControlPlane(t)
  const start = (t: Test, rules = [slicesRule]) => KubernetesGround.start(t, controlPlane, rules)

  await t.test('as every source', async (t) => {
    discoverySuite(t, async (t) => {
      const ground = await start(t)
      await ground.addSlice({ name: 'one', hosts: [] })
      return {
        source: await ground.source(),
        set: (hosts) => ground.changeSlice('one', [...new Set(hosts)]),
        inject: (fault) => {
          ground.front.fault = () => (fault === 'failure' ? { status: 500 } : fault)
          if (fault === 'silence') ground.front.freeze()
          if (fault === 'failure') ground.front.cut()
        },
        assertAtRest: () =>
          eventually(() => {
            if (ground.front.connections > 0) throw new Error(`${ground.front.connections} connections are open`)
          }),
      }
    })
  })

  await t.test('all slices of its Services, whatever their conditions', async (t) => {
    const ground = await start(t)
    const gossip = [
      { name: 'grpc', port: 8155 },
      { name: 'gossip', port: 9000 },
    ]
    await ground.addSlice({ name: 'ready', hosts: ['10.2.0.1'], ports: gossip })
    await ground.addSlice({ name: 'starting', hosts: ['10.2.0.2'], conditions: { ready: false, serving: false } })
    await ground.addSlice({ name: 'leaving', hosts: ['10.2.0.3'], conditions: { ready: false, terminating: true } })
    await ground.addSlice({ name: 'six', addressType: 'IPv6', hosts: ['fd00::7'], ports: gossip })
    await ground.addSlice({ name: 'other-port', hosts: ['10.2.0.4'], ports: [{ name: 'grpc', port: 8155 }] })
    await ground.addSlice({ name: 'second', service: 'kas-second', hosts: ['10.2.0.5'] })
    await ground.addSlice({ name: 'named', addressType: 'FQDN', hosts: ['kas.example.com'] })
    await ground.addSlice({ name: 'stranger', service: 'web', hosts: ['10.2.0.66'] })
    const source = await ground.source({ services: [ground.service, 'kas-second'], otherPort: 7777 }, 'direct')
    await source.start()
    const all = ['10.2.0.1:9000', '10.2.0.2:8156', '10.2.0.3:8156', '10.2.0.4:7777', '10.2.0.5:8156', '[fd00::7]:9000']
    t.strictSame(source.current(), { addresses: all, stale: false, answered: true })
    await ground.removeSlice('leaving')
    await discovered(source, finds(...all.filter((address) => !address.startsWith('10.2.0.3'))))
    t.strictSame(source.lines, [])
  })

  await t.test('a Service without slices, until it has one', async (t) => {
    const ground = await start(t)
    const source = await ground.source({}, 'direct')
    await source.start()
    t.strictSame(source.current(), { addresses: [], stale: false, answered: true })
    await ground.addSlice({ name: 'one', hosts: ['10.2.0.1'] })
    await discovered(source, finds('10.2.0.1:8156'))
  })

  await t.test('Endpoints where slices are denied, and slices again once they are allowed', async (t) => {
    const ground = await start(t, [endpointsRule('kas-private')])
    const ports = [{ name: 'gossip', port: 9000 }]
    const subset = { addresses: [{ ip: '10.2.0.1' }], notReadyAddresses: [{ ip: '10.2.0.2' }], ports }
    await ground.addEndpoints([subset])
    await ground.addSlice({ name: 'one', hosts: ['10.2.0.9'] })
    const source = await ground.source()
    await source.start()
    t.strictSame(source.current(), { addresses: ['10.2.0.1:9000', '10.2.0.2:9000'], stale: false, answered: true })
    await ground.changeEndpoints([{ addresses: [{ ip: '10.2.0.3' }] }])
    await discovered(source, finds('10.2.0.3:8156'))
    await ground.setRules([slicesRule, endpointsRule('kas-private')])
    await discovered(source, finds('10.2.0.9:8156'))
    await ground.setRules([endpointsRule('kas-private')])
    await discovered(source, finds('10.2.0.3:8156'))
    t.strictSame(
      source.lines.map(({ msg }) => String(msg)).filter((msg) => msg.startsWith('Discovery uses')),
      [
        'Discovery uses Endpoints, since EndpointSlices are not allowed',
        'Discovery uses EndpointSlices again',
        'Discovery uses Endpoints, since EndpointSlices are not allowed',
      ],
    )
  })

  await t.test('nothing is allowed, then something', async (t) => {
    const ground = await start(t, [])
    await ground.addSlice({ name: 'one', hosts: ['10.2.0.1'] })
    const source = await ground.source()
    await source.start()
    t.match(source.current(), { answered: false, error: /^HTTP 403: endpointslices.*HTTP 403: endpoints / })
    await ground.setRules([slicesRule])
    await discovered(source, finds('10.2.0.1:8156'))
  })

  await t.test('a kubeconfig that comes late', async (t) => {
    const ground = await start(t)
    await ground.addSlice({ name: 'one', hosts: ['10.2.0.1'] })
    const kubeconfig = `${t.testdir({})}/kubeconfig`
    const source = await ground.source({ kubeconfig })
    await source.start()
    t.match(source.current(), { answered: false, error: /ENOENT/ })
    await copyFile(await ground.kubeconfig('direct'), kubeconfig)
    await discovered(source, finds('10.2.0.1:8156'))
  })

  await t.test('an API server that is killed and comes back', async (t) => {
    const ground = await start(t)
    await ground.addSlice({ name: 'one', hosts: ['10.2.0.1', '10.2.0.2'] })
    const source = await ground.source({}, 'direct')
    await source.start()
    const restarted = controlPlane.restartApiServer({ abruptly: true })
    const { addresses } = await discovered(source, ({ stale }) => stale)
    t.strictSame(addresses, ['10.2.0.1:8156', '10.2.0.2:8156'])
    await restarted
    await ground.changeSlice('one', ['10.2.0.1'])
    await discovered(source, finds('10.2.0.1:8156'))
  })

  await t.test('an API server that freezes and thaws', async (t) => {
    const ground = await start(t)
    await ground.addSlice({ name: 'one', hosts: ['10.2.0.1'] })
    const source = await ground.source({}, 'direct')
    await source.start()
    controlPlane.signalApiServer('SIGSTOP')
    t.teardown(() => controlPlane.signalApiServer('SIGCONT'))
    const { addresses, error } = await discovered(source, ({ stale }) => stale)
    t.strictSame(addresses, ['10.2.0.1:8156'])
    t.equal(error, 'no answer within 1000 ms')
    controlPlane.signalApiServer('SIGCONT')
    await ground.changeSlice('one', ['10.2.0.2'])
    await discovered(source, finds('10.2.0.2:8156'))
  })
})
