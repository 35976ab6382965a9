import t from 'tap'
import { unreachableGossip } from '../../../../src/kas/config/gossip-listen.ts'
import { parseKasConfig } from '../../../../src/kas/config/kas-config.ts'

const listenOf = (more: string, env = {}) =>
  parseKasConfig('kas.yaml', `directory: { file: /d.yaml }\n${more}`, env).config.cluster.listen

t.test('gossip listens where the private API does, unless it is told', async (t) => {
  t.strictSame(listenOf(''), { network: 'tcp', address: '127.0.0.1:8156' })
  const cases = {
    ':8155': ':8156',
    '0.0.0.0:8155': '0.0.0.0:8156',
    '10.0.0.7:9155': '10.0.0.7:8156',
    '[fd00::7]:8155': '[fd00::7]:8156',
    'localhost:8155': 'localhost:8156',
  }
  for (const [address, expected] of Object.entries(cases)) {
    t.equal(listenOf(`private_api: { listen: { address: "${address}" } }`).address, expected)
  }
  const one = 'private_api: { listen: { network: tcp4, address: "10.0.0.7:8155" } }\n'
  t.strictSame(listenOf(one), { network: 'tcp4', address: '10.0.0.7:8156' })
  t.strictSame(listenOf(`${one}cluster: { listen: { address: ":9000" } }`), { network: 'tcp4', address: ':9000' })
  t.equal(listenOf(one, { KAS_CLUSTER_LISTEN: ':9001' }).address, ':9001')
  const alone = 'private_api: { listen: { network: unix, address: /run/kas/private.sock } }'
  t.strictSame(listenOf(alone), { network: 'tcp', address: '127.0.0.1:8156' })
})

t.test('a replica on loopback that looks for others elsewhere is told', async (t) => {
  const listen = { network: 'tcp', address: '127.0.0.1:8156' } as const
  const text = /on loopback \(127\.0\.0\.1:8156\).* Set private_api\.listen\.address, for instance to ":8155"/
  t.match(unreachableGossip({ listen, discovery: { dns: 'kas', static: [] } }), text)
  t.match(unreachableGossip({ listen, discovery: { kubernetes: {}, static: [] } }), text)
  t.match(unreachableGossip({ listen, discovery: { static: ['127.0.0.1:8156', '10.0.0.8:8156'] } }), text)
  t.equal(unreachableGossip({ listen, discovery: { static: ['127.0.0.1:8156', '[::1]:8157'] } }), undefined)
  t.equal(unreachableGossip({ listen, discovery: { static: [] } }), undefined)
  for (const address of [':8156', '10.0.0.7:8156']) {
    t.equal(unreachableGossip({ listen: { ...listen, address }, discovery: { dns: 'kas', static: [] } }), undefined)
  }
})
