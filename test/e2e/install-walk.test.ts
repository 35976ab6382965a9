import { execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { findHelm } from '../../dev/charts/helm.ts'
import { startGitHttpsServer } from '../support/git-https-server.ts'
import { assets } from '../support/kubectl-stack.ts'
import { Processes } from '../support/processes.ts'
import { typedLines } from '../support/typed-lines.ts'
import { imagesOnNodes } from './images/charts-on-nodes.ts'

/** What doc/install.md and doc/upgrade.md have one type for the charts, typed on three real nodes. */

const project = resolve(import.meta.dirname, '../..')
/** what the page promises */
const fiveMinutesMs = 300_000
const run = promisify(execFile)

await imagesOnNodes('the walks of the documentation on real nodes', import.meta.url, async (t, given) => {
  const { cluster, images } = given
  const processes = await Processes.start(t)
  const home = processes.folder
  const kubeconfig = join(cluster.folder, 'admin.kubeconfig')
  for (const name of ['kas', 'agentk']) await run('load', [join(images, name)])

  const git = await startGitHttpsServer(t, home, () => true, cluster.address)
  await mkdir(join(home, 'platform'))
  await run('git', ['init', '-q', '--bare', '-b', 'main', join(home, 'platform/clusters.git')])
  const authority = join(home, 'git-authority.crt')
  await writeFile(authority, git.ca)
  // the server of the double takes no pushes, and its certificate has an authority of its own
  const gitSettings = {
    GIT_CONFIG_COUNT: '1',
    GIT_CONFIG_KEY_0: `url.${home}/.insteadOf`,
    GIT_CONFIG_VALUE_0: `${git.origin}/`,
  }
  const its = (typed: string) =>
    typed
      .replaceAll('https://git.example.com', git.origin)
      .replaceAll('registry.example.com', 'docker.io/library')
      .replace(
        /^kubectl create namespace kas$/m,
        `$&\nkubectl -n kas create secret generic git --from-file=${authority}`,
      )
      .replace(
        /^tls: .*$/m,
        `$&\nextraSources: [{ secret: { name: git } }]\nextraEnv: [{ name: SSL_CERT_FILE, value: /etc/kas/git-authority.crt }]`,
      )

  /** In the folder of the project; nothing of the shell is left. @returns what it prints */
  const typed = async (lines: string): Promise<string> => {
    const script = `set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n${lines}`
    const PATH = [dirname(process.execPath), assets, dirname(findHelm() ?? ''), process.env.PATH].join(':')
    const environment = { ...gitSettings, PATH, KUBECONFIG: kubeconfig, HOME: home }
    const shell = await processes.spawn({ command: 'bash', args: ['-c', script], folder: project, environment })
    const { code, stdout, stderr } = await shell.ends({ timeoutMs: fiveMinutesMs })
    if (code !== 0) throw new Error(`exit status ${code}:\n${stderr}\nafter\n${stdout.toString().slice(-2000)}`)
    return stdout.toString()
  }

  await t.test('from nothing to kubectl through kas in five minutes', async (t) => {
    const began = performance.now()
    const said = await typed(its(typedLines('install.md', '## On Kubernetes, by the charts', '### Otherwise')))
    const tookMs = performance.now() - began
    t.comment(`${Math.round(tookMs / 1000)} s`)
    t.ok(tookMs < fiveMinutesMs)
    t.match(said, /^agentk +agentk-\S+ +1\/1 +Running/m)
    t.match(said, /^kas +kas-2 +1\/1 +Running/m)
    t.match(
      said,
      /^ok +replicas +kas-2: calls reach, and gossip is connected to, kas-0 at /m,
      'kas doctor of a sound installation',
    )
    t.match(said, /^ok +kubernetes +Service kas-private: addresses of it: 3; its port gossip is 8156/m)
    t.notMatch(said, /^(FAILED|note) /m)
  })

  await t.test('what is to be kept, an upgrade and the way back', async (t) => {
    const kas = 'kas() { npm run -s kas -- "$@"; }\n'
    const said = await typed(kas + typedLines('upgrade.md', '## What to keep', '## 0.1.0'))
    t.match(said, /kas\.config\.yaml: can be used/)
    t.match(said, /Rollback was a success[\s\S]*Rollback was a success/)
  })
})
