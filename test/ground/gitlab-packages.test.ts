import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { parseKasConfig } from '../../src/kas/config/kas-config.ts'
import { stopPatienceMs } from '../../src/kas/config/stop-patience.ts'
import { gossipPortName } from '../../src/membership/discovery/kubernetes/endpoint-addresses.ts'
import { findObject, readManifests } from '../support/manifests.ts'

/** The replacement of kas in GitLab's packages agrees with their configuration files and with the program. */

const root = join(import.meta.dirname, '../..')
const read = (file: string) => readFileSync(join(root, file), 'utf8')
const stock = (file: string) => read(`test/support/stock-configuration/${file}`)

const objects = readManifests('../gitlab-helm').filter(({ kind }) => kind !== undefined)
const { kas: values } = parse(read('deploy/gitlab-helm/values.yaml')).gitlab
const isKas = { app: 'kas', release: 'gitlab' }
/** ms; margin for delays that neither side knows, such as a slow node */
const roomMs = 10_000

const ofPod = { POD_NAME: 'gitlab-kas-5d', POD_NAMESPACE: 'gitlab' }
const { kubernetes_api, ...agent } = parse(stock('chart.yaml')).agent
const { listen, ...api } = kubernetes_api
const shutdown = values.customConfig.agent.kubernetes_api.listen
const merged = {
  ...parse(stock('chart.yaml')),
  agent: { ...agent, kubernetes_api: { ...api, listen: { ...listen, ...shutdown } } },
}
const { config } = parseKasConfig('config.yaml', JSON.stringify(merged), { ...values.extraEnv, ...ofPod })

t.test('the values for the chart make a cluster of its replicas', async (t) => {
  t.match(config.cluster, {
    name: ofPod.POD_NAME,
    discovery: { kubernetes: { service: 'gitlab-kas-private', namespace: 'gitlab' } },
  })
  t.strictSame(Object.keys(values.extraEnvFrom), Object.keys(ofPod))
  t.ok(values.deployment.terminationGracePeriodSeconds * 1000 >= stopPatienceMs(config) + roomMs, 'it may end in order')
})

t.test('they find one another by the Service, with the right to see it', async (t) => {
  const service = findObject(objects, 'Service', 'gitlab-kas-private')
  t.match(service.spec, { clusterIP: 'None', publishNotReadyAddresses: true, selector: isKas })
  t.strictSame(service.spec.ports, [
    { name: gossipPortName, port: 8156, targetPort: 8156 },
    { name: 'replicas', port: 8155, targetPort: 8155 },
  ])
  t.equal(config.cluster.listen.address, ':8156')
  t.equal(config.private_api.listen.address, ':8155')
  const { subjects, roleRef } = findObject(objects, 'RoleBinding', 'gitlab-kas-discovery')
  t.strictSame(subjects, [{ kind: 'ServiceAccount', name: values.serviceAccount.name, namespace: 'gitlab' }])
  t.match(values.serviceAccount, { enabled: true, create: true, automountServiceAccountToken: true })
  const rules = (of: string, role: string) =>
    JSON.stringify(findObject(readManifests(of), 'Role', role).rules).replaceAll('gitlab-kas-', 'kas-')
  t.equal(roleRef.name, 'gitlab-kas-discovery')
  t.equal(rules('../gitlab-helm', roleRef.name), rules('kas', 'kas-discovery'), 'the same as without GitLab')
})

t.test('8155 and 8156 are open to replicas alone, and each other port of the chart to somebody', async (t) => {
  const { podSelector, ingress } = findObject(objects, 'NetworkPolicy', 'gitlab-kas-replicas').spec
  t.strictSame(podSelector.matchLabels, isKas)
  const opened = new Map<number, unknown>()
  for (const { from, ports } of ingress) for (const { port } of ports) opened.set(port, from)
  t.strictSame([...opened.keys()].sort(), [8150, 8151, 8153, 8154, 8155, 8156])
  for (const port of [8155, 8156]) t.strictSame(opened.get(port), [{ podSelector: { matchLabels: isKas } }])
})

t.test("what is said of the Linux package makes a cluster of its nodes' replicas", async (t) => {
  const page = read('deploy/gitlab-omnibus.md')
  const ways = {
    runit: Object.fromEntries(page.matchAll(/^ +'(\w+)' => '([^']+)'/gm).map(([, name, value]) => [name, value])),
    systemd: Object.fromEntries(page.matchAll(/^ +Environment=(\w+)=(.+)$/gm).map(([, name, value]) => [name, value])),
  }
  const text = stock('omnibus.yml').replace('localhost:8155', '0.0.0.0:8155')
  for (const [way, env] of Object.entries(ways)) {
    const { cluster } = parseKasConfig('gitlab-kas-config.yml', text, env).config
    const discovery = { static: ['10.0.0.10:8156', '10.0.0.11:8156', '10.0.0.12:8156'] }
    t.match(cluster, { name: 'kas-0', discovery, listen: { address: '0.0.0.0:8156' } }, way)
  }
  t.ok(page.includes("gitlab_kas['private_api_listen_address'] = '0.0.0.0:8155'"))
})
