import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { parseListenAddress } from '../../src/kas/config/listen-address.ts'
import { parseKasConfig } from '../../src/kas/config.ts'
import { stopPatienceMs } from '../../src/kas/stop-patience.ts'
import { findObject, readManifest } from '../support/manifests.ts'

/** What is shipped for GitLab's packages agrees with what they write, and with kas (gitlab-contract 6). */

const root = join(import.meta.dirname, '../..')
const read = (path: string) => readFileSync(join(root, path), 'utf8')
const stock = (name: string) => read(`test/support/stock-configuration/${name}`)
type Tree = { readonly [key: string]: Tree | string | number | boolean }

/** As the chart does it: blocks are merged, all else is replaced. */
function merged(below: Tree, above: Tree): Tree {
  const isTree = (value: Tree[string] | undefined): value is Tree => typeof value === 'object'
  const entries = Object.entries(above).map(([key, value]) => {
    const old = below[key]
    return [key, isTree(value) && isTree(old) ? merged(old, value) : value]
  })
  return { ...below, ...Object.fromEntries(entries) }
}

const values = parse(read('deploy/gitlab-helm/values.yaml')).gitlab.kas
const [peers] = [findObject(readManifest(join(root, 'deploy/gitlab-helm/peers.yaml')), 'Service', 'gitlab-kas-peers')]
/** `terminationGracePeriodSeconds` of the chart */
const chartGraceMs = 300_000

for (const file of ['chart.yaml', 'chart-tls.yaml']) {
  t.test(`the chart's values with its ${file}`, async (t) => {
    const text = JSON.stringify(merged(parse(stock(file)), values.customConfig))
    const env = { ...values.extraEnv, POD_NAME: 'gitlab-kas-1' }
    const { config, warnings } = parseKasConfig('config.yaml', text, env)
    const own = warnings.filter(({ key }) =>
      JSON.stringify(values.customConfig).includes(key.split('.').at(-1) as string),
    )
    t.strictSame(own, [], 'no word on what was added')
    t.equal(config.cluster.name, 'gitlab-kas-1')
    t.ok(stopPatienceMs(config) <= chartGraceMs - 10_000, 'Kubernetes waits longer than kas takes to stop')
    const portOf = ({ network, address }: { network: 'tcp' | 'tcp4' | 'tcp6' | 'unix'; address: string }) =>
      (parseListenAddress(network, address) as { port: number }).port
    const ports = [portOf(config.private_api.listen), portOf(config.cluster.listen)]
    t.strictSame(
      peers.spec.ports.map(({ port }: { port: number }) => port),
      ports,
    )
    const { name, namespace } = peers.metadata
    t.equal(config.cluster.discovery.dns, `${name}.${namespace}.svc:${ports[1]}`)
  })
}

t.test('the policy is about the same pods and ports', async (t) => {
  const [policy] = readManifest(join(root, 'deploy/gitlab-helm/network-policy.yaml'))
  t.same(policy?.spec.podSelector.matchLabels, peers.spec.selector)
  t.same(policy?.spec.ingress[0].from[0].podSelector.matchLabels, peers.spec.selector)
  const ports = policy?.spec.ingress[0].ports.map(({ port }: { port: number }) => port)
  t.same(
    ports,
    peers.spec.ports.map(({ port }: { port: number }) => port),
  )
})

t.test('the environment of the page on Omnibus makes a cluster of what the package writes', async (t) => {
  const [block = ''] = /gitlab_kas\['env'\] = \{\n([^}]+)\}/.exec(read('deploy/gitlab-omnibus.md'))?.slice(1) ?? []
  const env = Object.fromEntries(
    Array.from(block.matchAll(/'(\w+)' => '([^']+)'/g), ([, name, value]) => [name, value]),
  )
  t.match(env, { SSL_CERT_DIR: '/opt/gitlab/embedded/ssl/certs/' })
  const { config } = parseKasConfig('gitlab-kas-config.yml', stock('omnibus-nodes.yml'), env)
  t.equal(config.cluster.name, 'kas-1')
  t.equal(config.cluster.discovery.static?.length, 3)
  t.equal(config.ops.socket, env.KAS_OPS_SOCKET)
})
