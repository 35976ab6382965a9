import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { KubernetesObject } from '../../dev/control-plane/api-client.ts'
import { uid } from '../../dev/images/file-system.ts'
import { commandOf } from '../../dev/images/program-layer.ts'
import { nodeFlags } from '../../dev/node-flags.ts'
import { parseFlags } from '../../src/agentk/config/flags.ts'
import { graceVariable } from '../../src/kas/cli/doctor/graces.ts'
import { parseKasConfig } from '../../src/kas/config/kas-config.ts'
import { parseListenAddress } from '../../src/kas/config/listen-address.ts'
import { stopPatienceMs } from '../../src/kas/config/stop-patience.ts'
import { gossipPortName } from '../../src/membership/discovery/kubernetes/endpoint-addresses.ts'
import { findObject, readManifests } from '../support/manifests.ts'

/** The manifests in deploy/ agree with the programs and with each other. test/e2e/deploy.test.ts applies them. */

const root = join(import.meta.dirname, '../..')
const kas = readManifests('kas')
const agentk = readManifests('agentk')
const access = readManifests('agentk-access')
const all = [...kas, ...agentk, ...access, ...readManifests('agentk-flux'), ...readManifests('agentk-views')]

const replicas = findObject(kas, 'StatefulSet', 'kas').spec
const deployment = findObject(agentk, 'Deployment', 'agentk').spec
const workloads = { kas: replicas.template.spec, agentk: deployment.template.spec }
const { config, warnings } = parseKasConfig(
  'config.yaml',
  findObject(kas, 'ConfigMap', 'kas').data['config.yaml'],
  Object.fromEntries(
    workloads.kas.containers[0].env.map(({ name, value }: { name: string; value?: string }) => [
      name,
      value ?? 'kas-0',
    ]),
  ),
)
const kubernetesApi = config.agent.kubernetes_api as NonNullable<typeof config.agent.kubernetes_api>
const listens = {
  agents: config.agent.listen,
  ops: config.observability.listen,
  rails: config.api.listen,
  kubernetes: kubernetesApi.listen,
  replicas: config.private_api.listen,
  gossip: config.cluster.listen,
}

/** ms; time that src/agentk/main.ts takes to stop */
const agentkStopMs = 25_000
/** ms; margin for delays that neither side knows, such as a slow node */
const roomMs = 10_000

t.test('the configuration is as kas wants it', async (t) => {
  t.strictSame(warnings, [])
  t.equal(config.cluster.name, 'kas-0', 'a name that survives restarts')
})

t.test('Kubernetes waits longer than the programs take to stop', async (t) => {
  const kasMs = stopPatienceMs(config)
  t.ok(workloads.kas.terminationGracePeriodSeconds * 1000 >= kasMs + roomMs, `kas takes ${kasMs} ms`)
  const told = workloads.kas.containers[0].env.find(({ name }: { name: string }) => name === graceVariable)
  t.equal(told?.value, String(workloads.kas.terminationGracePeriodSeconds), 'doctor is told the same')
  t.ok(workloads.agentk.terminationGracePeriodSeconds * 1000 >= agentkStopMs + roomMs, 'agentk')
})

t.test('ports are those of the configuration, under the names that discovery looks for', async (t) => {
  const ports = Object.entries(listens).map(([name, { network, address }]) => {
    const listen = parseListenAddress(network, address)
    t.match(listen, { port: Number, host: undefined }, `${name} listens on all interfaces`)
    return [name, (listen as { port: number }).port]
  })
  const [container] = workloads.kas.containers
  t.strictSame(
    container.ports.map((port: { name: string; containerPort: number }) => [port.name, port.containerPort]),
    ports,
  )
  const servicePorts = (name: string) => findObject(kas, 'Service', name).spec.ports.map(withoutTarget)
  const numbers = Object.fromEntries(ports)
  t.strictSame(servicePorts('kas-private'), [
    { name: gossipPortName, port: numbers.gossip },
    { name: 'replicas', port: numbers.replicas },
  ])
  t.strictSame(servicePorts('kas'), [
    { name: 'agents', port: numbers.agents },
    { name: 'rails', port: numbers.rails },
    { name: 'kubernetes', port: numbers.kubernetes },
  ])
  t.match(findObject(kas, 'Service', 'kas-private').spec, { clusterIP: 'None', publishNotReadyAddresses: true })
  t.strictSame(config.cluster.discovery, { kubernetes: { service: 'kas-private' }, static: [] })
  const opened = findObject(kas, 'NetworkPolicy', 'kas').spec.ingress.flatMap((rule: KubernetesObject) =>
    rule.ports.map(({ port }: { port: number }) => port),
  )
  t.strictSame(opened.sort(), Object.values(numbers).sort(), 'each is opened to somebody')
})

t.test('8155 and 8156 are open to replicas alone', async (t) => {
  const { podSelector, ingress } = findObject(kas, 'NetworkPolicy', 'kas').spec
  const rules = ingress.filter((rule: KubernetesObject) =>
    rule.ports.some(({ port }: { port: number }) => port === 8155 || port === 8156),
  )
  t.strictSame(
    rules.map((rule: KubernetesObject) => rule.from),
    [[{ podSelector }]],
  )
  t.strictSame(podSelector.matchLabels, replicas.template.metadata.labels)
})

t.test('probes ask what the programs answer', async (t) => {
  const { liveness_probe, readiness_probe } = config.observability
  for (const [name, spec] of Object.entries(workloads)) {
    const [{ livenessProbe, readinessProbe, startupProbe }] = spec.containers
    t.strictSame(livenessProbe.httpGet, { path: liveness_probe.url_path, port: 'ops' }, name)
    t.strictSame(startupProbe.httpGet, livenessProbe.httpGet, name)
    const startSeconds = startupProbe.periodSeconds * startupProbe.failureThreshold
    t.equal(startSeconds, 300, `${name}: a start on a busy node is not cut off while helm waits for it`)
    t.strictSame(readinessProbe.httpGet, { path: readiness_probe.url_path, port: 'ops' }, name)
  }
})

t.test('pods get the files and the environment that the programs read', async (t) => {
  const [kasContainer] = workloads.kas.containers
  t.strictSame(kasContainer.args, ['--configuration-file=/etc/kas/config.yaml'])
  const files = JSON.stringify(config).match(/"\/etc\/[^"]+"/g) ?? []
  t.ok(files.length > 5)
  for (const file of files) t.match(file, /^"\/etc\/kas\/[^/]+"$/, 'in the one volume')
  const [agentkContainer] = workloads.agentk.containers
  const flags = parseFlags(agentkContainer.args)
  t.match(flags, { 'kas-address': /^wss:/, 'token-file': '/etc/agentk/token' })
  const namesOf = ({ env }: KubernetesObject) => env.map(({ name }: { name: string }) => name)
  t.strictSame(namesOf(kasContainer), ['POD_NAME', 'POD_NAMESPACE', graceVariable, 'TMPDIR', 'KAS_OPS_SOCKET'])
  t.strictSame(namesOf(agentkContainer), ['POD_NAME', 'POD_NAMESPACE', 'TMPDIR'])
})

t.test('nothing asks for more than it needs', async (t) => {
  const roles = all.filter(({ kind }) => kind === 'Role' || kind === 'ClusterRole')
  t.equal(roles.length, 8)
  for (const { metadata, rules } of roles) t.notMatch(JSON.stringify(rules), /\*/, `${metadata.name} has no wildcard`)
  for (const [name, { containers, securityContext }] of Object.entries(workloads)) {
    t.match(securityContext, { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } }, name)
    t.strictSame(
      containers[0].securityContext,
      { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } },
      name,
    )
  }
})

t.test('images start the programs as they are meant to be started', async (t) => {
  for (const name of ['kas', 'agentk'] as const) {
    t.strictSame(commandOf(name), ['/usr/bin/node', ...nodeFlags, `/usr/lib/kas/dist/${name}/main.js`])
    t.ok(existsSync(join(root, 'src', name, 'main.ts')))
    const { runAsUser, runAsGroup, fsGroup } = workloads[name].securityContext
    t.strictSame([runAsUser, runAsGroup, fsGroup], [uid, uid, uid], 'the user of the image')
  }
})

const withoutTarget = ({ name, port }: { name: string; port: number }) => ({ name, port })
