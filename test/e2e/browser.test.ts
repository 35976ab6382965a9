import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ApiDouble } from '../../dev/api-double/api-double.ts'
import { Authority } from '../../dev/certificates.ts'
import { freePorts } from '../../dev/control-plane/free-ports.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import { absent } from '../support/absent.ts'
import { openPage } from '../support/chromium.ts'
import { GitlabDouble } from '../support/gitlab/gitlab-double.ts'
import { suiteWorld } from '../support/gitlab/gitlab-world.ts'
import { startKasApp } from '../support/kas-app.ts'
import { PageServer } from '../support/page-server.ts'
import { Processes } from '../support/processes.ts'
import { mainOf } from '../support/programs.ts'

/** GitLab's dashboard in Chromium, with GitLab's own client; kas and the cluster are of another origin. */

const cookie = '_gitlab_kas=cookie-of-ada; Path=/; Domain=gitlab.localhost; Secure; HttpOnly'
const userAccess = 'user_access: { access_as: { user: {} }, projects: [{ id: platform/clusters }] }'
const clientFolder = join(import.meta.dirname, '../../node_modules/@gitlab/cluster-client/dist')

async function start(t: Test) {
  const processes = await Processes.start(t)
  const folder = join(processes.folder, 'settings')
  await mkdir(folder)
  const authority = await Authority.create('browser')
  const hosts = { dns: ['localhost', 'gitlab.localhost', 'kas.gitlab.localhost', 'elsewhere.localhost'] }
  const serving = await authority.issueServing({ ...hosts, ip: ['127.0.0.1'] })
  await writeFile(join(folder, 'serving.crt'), serving.certificate)
  await writeFile(join(folder, 'serving.key'), serving.key, { mode: 0o600 })
  await writeFile(join(folder, 'ca.crt'), authority.certificate)
  const cluster = new ApiDouble(
    { serving, clientAuthority: authority.certificate },
    { token: 'any', logLineEveryMs: 20 },
  )
  t.teardown(() => cluster.stop())
  await cluster.start()
  const gitlab = await GitlabDouble.start(t, { world: suiteWorld(userAccess) })
  const kas = await startKas(t, { folder, gitlab })
  await startAgentk({
    processes,
    folder,
    kasPort: kas.port('Agentk API'),
    cluster: cluster.url,
    ca: authority.certificate,
  })
  const pages = await PageServer.start(t, {
    ...serving,
    cookie,
    script: join(import.meta.dirname, 'browser/dashboard.js'),
    clientFolder,
  })
  /** Opens the page. @returns its result after all of `acts` */
  const play = async (host: string, acts: readonly string[], more: Record<string, string> = {}) => {
    const basePath = `https://kas.gitlab.localhost:${kas.port('Kubernetes API')}/k8s-proxy`
    const query = new URLSearchParams({ basePath, agentId: '42', csrfToken: 'csrf-of-ada', ...more })
    const said = pages.said()
    const browser = await openPage(processes, `https://${host}:${pages.port}/page?${query}#${acts.join()}`)
    const ended = browser.exited.then(({ stderr }) => Promise.reject(new Error(`Chromium ended: ${stderr}`)))
    const result = (await Promise.race([said, ended])) as Record<string, unknown>
    ended.catch(() => undefined) // it ends now
    browser.signal('SIGTERM')
    await browser.exited
    return result
  }
  return { gitlab, kas, play }
}

async function startKas(t: Test, { folder, gitlab }: { folder: string; gitlab: GitlabDouble }) {
  await writeFile(join(folder, 'secret'), gitlab.secret.toString('base64'))
  await writeFile(join(folder, 'websocket'), Buffer.alloc(72, 7).toString('base64'))
  const secret = { authentication_secret_file: join(folder, 'secret') }
  const tls = { certificate_file: join(folder, 'serving.crt'), key_file: join(folder, 'serving.key') }
  const at = { address: '127.0.0.1:0', listen_grace_period: '0s' }
  const [gossip] = await freePorts(1)
  const configuration = {
    gitlab: { address: gitlab.address, ...secret, external_url: 'https://gitlab.localhost' },
    agent: {
      listen: { ...at, websocket: true },
      kubernetes_api: {
        listen: { ...at, ...tls },
        url_path_prefix: '/k8s-proxy',
        websocket_token_secret_file: join(folder, 'websocket'),
      },
    },
    api: { listen: { ...at, ...secret } },
    private_api: { listen: { ...at, ...secret } },
    observability: { listen: { address: '127.0.0.1:0' } },
    cluster: { name: 'kas-0', listen: { address: `127.0.0.1:${gossip}` } },
  }
  const { portOf: port } = await startKasApp(t, configuration)
  const outcomes = async () => {
    const text = await (await fetch(`http://127.0.0.1:${port('Observability')}/metrics`)).text()
    const all = text.matchAll(/^kas_kubernetes_requests_total\{outcome="(\w+)"\} ([1-9]\d*)$/gm)
    return Object.fromEntries([...all].map(([, outcome, count]) => [outcome, Number(count)]))
  }
  return { port, outcomes }
}

interface AgentkSide {
  readonly processes: Processes
  readonly folder: string
  readonly kasPort: number
  readonly cluster: string
  readonly ca: string
}

async function startAgentk({ processes, folder, kasPort, cluster, ca }: AgentkSide): Promise<void> {
  const kubeconfig = kubeconfigText({ server: cluster, authority: ca, user: { token: 'any' } })
  await writeFile(join(folder, 'cluster.kubeconfig'), kubeconfig)
  await writeFile(join(folder, 'agent-token'), 'glagent-prod')
  const agentk = await processes.spawn({
    command: process.execPath,
    args: [
      mainOf('agentk'),
      `--kas-address=ws://127.0.0.1:${kasPort}`,
      `--token-file=${join(folder, 'agent-token')}`,
      `--kubeconfig=${join(folder, 'cluster.kubeconfig')}`,
      '--observability-listen-address=127.0.0.1:0',
    ],
    environment: { POD_NAME: 'agentk-0', POD_NAMESPACE: 'default' },
  })
  await agentk.says(/agentk is up/)
}

t.test('in Chromium', { skip: absent('chromium') && 'needs chromium' }, async (t) => {
  const { gitlab, kas, play } = await start(t)

  // wire: 8154.origin.good, 8154.preflight, credential.cookie, watch.protocol, watch.token, watch.token.protocol
  await t.test('the dashboard of GitLab: list, refusals, watches over fetch and WebSocket, delete, log', async (t) => {
    const said = await play('gitlab.localhost', ['list', 'refusal', 'watches', 'log'])
    t.strictSame(said, {
      cookie: '',
      list: { status: 200, type: 'application/json', names: ['clock', 'echo'] },
      refusal: { status: 401 },
      watches: { seen: [['read-me'], ['read-me']], status: 200, left: [[], []] },
      log: said.log,
    })
    t.match(said.log, /clock: line \d+/)
  })

  await t.test('what it may read of a refusal of kas itself', async (t) => {
    const said = await play('gitlab.localhost', ['malformed'])
    t.match(said.malformed, {
      status: 401,
      type: 'application/json',
      reason: 'Unauthorized',
      message: /^GitLab Agent Server: Unauthorized: exactly one CSRF token must be provided/,
    })
  })

  // wire: 8154.origin.foreign
  await t.test('a page of another origin gets nothing, and nobody asks for it', async (t) => {
    const asked = gitlab.calls.length
    const said = await play('elsewhere.localhost', ['foreign'])
    t.strictSame(said, { cookie: '', foreign: { asked: 'FetchError: TypeError', opened: 'refused' } })
    t.equal(gitlab.calls.length, asked)
    t.equal((await kas.outcomes()).foreign_origin, 2, 'the preflight of its call, and its WebSocket')
  })
})
