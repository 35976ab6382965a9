import { execFile } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { findHelm } from '../../dev/charts/helm.ts'
import type { KubernetesObject } from '../../dev/control-plane/api-client.ts'
import { skip as withoutHelm } from '../support/charts/chart-words.ts'
import { startGitHttpsServer } from '../support/git-https-server.ts'
import { assets } from '../support/kubectl-stack.ts'
import type { NodeCluster } from '../support/nodes/node-cluster.ts'
import { onNodes } from '../support/nodes/on-nodes.ts'
import { type Exit, Processes } from '../support/processes.ts'
import { patience } from '../support/slowness.ts'
import { SteadyCalls } from '../support/steady-calls.ts'
import { typedLines } from '../support/typed-lines.ts'
import { imagesOfTree } from './images/images-of-tree.ts'
import { lacking } from './images/unpacked-runc.ts'

/**
 * The charts with the images that are shipped, on three nodes with a kubelet. The test runs the commands of
 * doc/guide/install.md and doc/guide/upgrade.md, while nodes and versions come and go.
 */

const name = 'charts on real nodes'
/** ends a test that hangs: two and a half times the usual duration on an idle machine. ms */
const timeoutMs = 400_000
/** passed to the run on the nodes, which cannot reach Debian's packages */
const imagesVariable = 'KAS_CHARTS_IMAGES'
const project = resolve(import.meta.dirname, '../..')
/** promise of doc/guide/install.md */
const fiveMinutesMs = 300_000
/** limit for pods that leave: 80 s for each of kas, from the chart with these graces, and some for the network. s */
const drainSeconds = 120
const graces = '{ listen: 5s, shutdown: 30s }'
/** pause of each caller while something leaves: some twenty calls a second. ms */
const betweenCallsMs = 160
/** Definitions from earlier in the page. */
const commands = 'kas() { npm run -s kas -- "$@"; }\nexport KAS_DIRECTORY_FILE=$site/directory.yaml\n'
/** warnings of the API server: kubectl prints `Warning: `, helm `W1127 21:30:48 ... warnings.go:70] ` */
const warnings = /^Warning: |^W\d{4} /m
const run = promisify(execFile)

/** A shell in the folder of the project. The nodes have the project's images. */
interface Shell {
  readonly cluster: NodeCluster
  readonly home: string
  /** Runs the lines, and ends all that they started. @throws Error if they fail */
  typed(lines: string): Promise<Exit>
  /** Lines of a page, with the names of this cluster. */
  its(typed: string): string
}

async function openShell(t: Test, cluster: NodeCluster): Promise<Shell> {
  const processes = await Processes.start(t)
  const home = processes.folder
  const git = await startGitHttpsServer(t, home, () => true, cluster.address)
  await mkdir(join(home, 'platform'))
  await run('git', ['init', '-q', '--bare', '-b', 'main', join(home, 'platform/clusters.git')])
  const authority = join(home, 'git-authority.crt')
  await writeFile(authority, git.ca)
  const PATH = [dirname(process.execPath), assets, dirname(findHelm() ?? ''), process.env.PATH].join(':')
  const environment = {
    // the double's server takes no pushes, and its certificate has an authority of its own
    GIT_CONFIG_COUNT: '1',
    GIT_CONFIG_KEY_0: `url.${home}/.insteadOf`,
    GIT_CONFIG_VALUE_0: `${git.origin}/`,
    PATH,
    KUBECONFIG: join(cluster.folder, 'admin.kubeconfig'),
    HOME: home,
  }
  const sources = `extraSources: [{ secret: { name: git } }]`
  const trusted = `extraEnv: [{ name: SSL_CERT_FILE, value: /etc/kas/git-authority.crt }]`
  return {
    cluster,
    home,
    its: (typed) =>
      typed
        .replaceAll('https://git.example.com', git.origin)
        .replaceAll('registry.example.com', 'docker.io/library')
        // adds warnings, which are off otherwise
        .replaceAll(/pod-security\.kubernetes\.io\/enforce=(\w+)/g, '$& pod-security.kubernetes.io/warn=$1')
        .replace(
          /^kubectl create namespace kas$/m,
          `$&\nkubectl -n kas create secret generic git --from-file=${authority}`,
        )
        .replace(/^tls: .*$/m, `$&\ngraces: ${graces}\n${sources}\n${trusted}`),
    async typed(lines) {
      const script = `set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\nsite=$HOME/kas-site\n${lines}`
      const shell = await processes.spawn({ command: 'bash', args: ['-c', script], folder: project, environment })
      const exit = await shell.ends({ timeoutMs: fiveMinutesMs })
      const { code, stdout, stderr } = exit
      if (code !== 0) throw new Error(`exit status ${code}:\n${stderr}\nafter\n${stdout.toString().slice(-2000)}`)
      return exit
    },
  }
}

/** Does `act` while ada calls through kas and agentk all the time: no call may fail. */
async function underCalls(t: Test, { cluster, home }: Shell, act: () => Promise<void>): Promise<void> {
  const { spec } = await cluster.admin.get('/api/v1/namespaces/kas/services/kas')
  const read = (file: string) => readFile(join(home, 'kas-site', file), 'utf8')
  const calls = new SteadyCalls({
    url: `https://${spec.clusterIP}:8154/api/v1/namespaces`,
    ca: await read('tls.crt'),
    servername: 'kas.kas.svc',
    token: `pat:1:${(await read('ada-user.token')).trim()}`,
    pauseMs: betweenCallsMs,
  })
  calls.start()
  t.teardown(() => calls.stop())
  await calls.more(20)
  await act()
  await calls.more(20)
  const results = await calls.stop()
  t.comment(`${results.length} calls`)
  t.ok(results.length > 100, `${results.length} calls`)
  t.strictSame(
    calls.failed.map(({ status, text, startedMs }) => [Math.round(startedMs), status, text]),
    [],
  )
}

async function play(t: Test, cluster: NodeCluster): Promise<void> {
  const images = process.env[imagesVariable] ?? ''
  const shell = await openShell(t, cluster)
  const { typed, its } = shell
  for (const name of ['kas', 'agentk']) await run('load', [join(images, name)])

  await t.test('from nothing to kubectl through kas in five minutes', async (t) => {
    const began = performance.now()
    const exit = await typed(
      its(typedLines('guide/install.md', '## On Kubernetes, by the charts', '### A second user')),
    )
    const said = exit.stdout.toString()
    const tookMs = performance.now() - began
    t.comment(`${Math.round(tookMs / 1000)} s`)
    t.ok(tookMs < patience(fiveMinutesMs))
    t.match(said, /^agentk +agentk-\S+ +1\/1 +Running/m)
    t.match(said, /^kas +kas-2 +1\/1 +Running/m)
    t.strictSame(said.match(/^(?:kas +kas-\d|agentk +agentk-\S+) +1\/1 +Running/gm)?.length, 5)
    t.match(
      said,
      /^ok +replicas +kas-2: calls reach, and gossip is connected to, kas-0 at /m,
      'kas doctor of a sound installation',
    )
    t.match(said, /^ok +kubernetes +Service kas-private: addresses of it: 3; its port gossip is 8156/m)
    t.notMatch(said, /^(FAILED|note) /m)
    t.notMatch(exit.stderr, warnings)
  })

  await t.test('a second user', async (t) => {
    const way = 'kubectl -n kas port-forward service/kas 8154 > $site/way.log 2>&1 &'
    const exit = await typed(
      `${commands}${way}\n${typedLines('guide/install.md', '### A second user', '### Otherwise')}`,
    )
    const said = exit.stdout.toString()
    t.match(said, /^secret\/kas-directory replaced$/m)
    t.match(said, /^kas +kas-2 +1\/1 +Running/m)
    t.notMatch(exit.stderr, warnings)
  })

  await t.test('what is to be kept, an upgrade and the way back', async (t) => {
    const exit = await typed(commands + typedLines('guide/upgrade.md', '## What to keep', '## 0.1.0'))
    const said = exit.stdout.toString()
    t.match(said, /kas\.config\.yaml: can be used/)
    t.match(said, /Rollback was a success[\s\S]*Rollback was a success/)
  })

  /** Runs helm, which must not print a warning of the API server on stderr. */
  const helm = async (t: Test, line: string) =>
    t.equal((await typed(`helm ${line} --wait --timeout=100s`)).stderr, '', line)
  const upgrade = (t: Test, chart: string, ...set: string[]) =>
    helm(t, `upgrade ${chart} deploy/charts/${chart} -n ${chart} --values $site/${chart}.values.yaml ${set.join(' ')}`)

  await t.test('new pods of kas and of agentk, one after the other, fail no call', async (t) => {
    await underCalls(t, shell, async () => {
      await upgrade(t, 'kas', '--set=customConfig.observability.logging.level=warn')
      await upgrade(t, 'agentk', "--set='extraEnv[0].name=LOG_LEVEL,extraEnv[0].value=warn'")
    })
    const { items } = await cluster.admin.get('/api/v1/namespaces/agentk/pods')
    const staying = (items as KubernetesObject[]).filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    const nodes = staying.map(({ spec }) => spec.nodeName)
    t.strictSame([nodes.length, new Set(nodes).size], [2, 2], 'the new pods of agentk are on two nodes')
  })

  await t.test('a node that is drained, and the way back to the version before, fail no call', async (t) => {
    await underCalls(t, shell, async () => {
      const { spec } = await cluster.admin.get('/api/v1/namespaces/kas/pods/kas-0')
      const { nodeName } = spec
      const drain = `drain ${nodeName} --ignore-daemonsets --delete-emptydir-data --timeout=${drainSeconds}s`
      t.match((await typed(`kubectl ${drain}`)).stdout.toString(), /pod\/kas-0 evicted/)
      await typed(`kubectl uncordon ${nodeName}`)
      await helm(t, 'rollback agentk -n agentk')
    })
  })
}

const isInside = process.env.KUBETEST_DIR !== undefined
const skip = !isInside && (withoutHelm || (process.env.KUBETEST_NODES ? await lacking() : 'needs KUBETEST_NODES'))
if (skip) t.test(name, { skip }, () => undefined)
else {
  if (!isInside) process.env[imagesVariable] = await imagesOfTree()
  onNodes(name, { file: import.meta.url, nodes: 3, timeoutMs }, play)
}
