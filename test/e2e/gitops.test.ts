import { spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import { exampleFor } from '../../dev/start/example-repository.ts'
import { LocalStack } from '../../dev/start/local-stack.ts'
import { anyPorts, replicaCount } from '../../dev/start/ports.ts'
import { tellPush } from '../../dev/start/push-watch.ts'
import { holdersOf, viewReplicas } from '../../dev/start/replica-table.ts'
import { agent, files } from '../../dev/start/settings.ts'
import { eventually } from '../support/eventually.ts'
import { httpsGet } from '../support/https-get.ts'
import { mainOf, testPrograms } from '../support/programs.ts'

/** Three replicas and an agentk as processes, a real API server, and people who push to the example of doc/guide/gitops.md. */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'api')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`
/** time limit on a busy machine */
const soon = { timeoutMs: 60_000 }
const maps = '/api/v1/namespaces/shop/configmaps'

t.test('what is pushed is in the cluster, whichever replicas are there', { skip, timeout: 240_000 }, async (t) => {
  const { stack, push, read, states, status, running } = await start(t)
  const holders = async () => holdersOf(await viewReplicas(running()))
  const strangerOf = async () => {
    const held = await eventually(async () => (await holders()).length > 0 && holders(), soon)
    const stranger = running().find(({ name }) => !held.includes(name))
    return stranger ?? running()[0]
  }
  /** waits until every running replica reports it */
  const untilEachSays = async (commit: string) => {
    for (const { name, ports } of running()) {
      await eventually(async () => {
        const sources = await states(ports.kubernetes)
        return sources.some((source) => source.phase === 'SYNCED' && source.commit === commit)
      }, soon)
      const printed = await eventually(async () => {
        const { code, out } = await status(ports.kubernetes)
        if (!out.includes(` ${commit.slice(0, 8)} `)) throw new Error(`${name}: ${out}`)
        if (!/ SYNCED /.test(out)) throw new Error(`${name}: ${out}`)
        return { code, out }
      }, soon)
      t.match(printed, { code: 0, out: /^demo\/clusters +- +SYNCED +(\w{8}) +\1 /m }, `asked at ${name}`)
    }
  }
  const untilRead = <T>(path: string, condition: (object: Awaited<ReturnType<typeof read>>) => T | undefined | false) =>
    eventually(async () => {
      const object = await read(path)
      const found = condition(object)
      if (found === undefined || found === false) throw new Error(`${path}: ${JSON.stringify(object)}`)
      return found
    }, soon)

  await t.test('the first sync brings the example', async (t) => {
    await untilRead('/apis/apps/v1/namespaces/shop/deployments/web', (web) => web?.spec.replicas === 2)
    await untilRead('/api/v1/namespaces/shop/services/web', (web) => web?.spec.ports[0].port === 80)
    t.match(await read(`${maps}/page`), { data: { 'index.html': /Open all day/ } })
  })

  await t.test('a push that a replica hears which does not hold the agent', async (t) => {
    const stranger = await strangerOf()
    t.notOk((await holders()).includes(stranger?.name ?? ''), `${stranger?.name} does not hold it`)
    const commit = await push({ 'manifests/a.yaml': map('a', '1'), 'manifests/b.yaml': map('b', '1') })
    const began = performance.now()
    t.ok(await tellPush(stack.folder, stranger?.ports.rails ?? 0))
    await untilRead(`${maps}/a`, (a) => a?.data.value === '1')
    await untilRead(`${maps}/b`, (b) => b?.data.value === '1')
    t.comment(`from push to objects: ${Math.round(performance.now() - began)} ms`)
    await untilEachSays(commit)
  })

  await t.test('the next one changes an object, and prunes another', async (t) => {
    const { metadata } = (await read(`${maps}/a`)) ?? {}
    const commit = await push({ 'manifests/a.yaml': map('a', '2'), 'manifests/b.yaml': undefined })
    t.ok(await tellPush(stack.folder, (await strangerOf())?.ports.rails ?? 0))
    await untilRead(`${maps}/a`, (a) => a?.data.value === '2')
    await eventually(async () => (await read(`${maps}/b`)) === undefined, soon)
    t.equal((await read(`${maps}/a`))?.metadata.uid, metadata.uid, 'it is the same object')
    await untilEachSays(commit)
  })

  await t.test('the holder is killed, and somebody pushes', async () => {
    const [name] = await eventually(async () => (await holders()).length > 0 && holders(), soon)
    const holder = stack.replicas.find((replica) => replica.name === name)
    holder?.signal('SIGKILL')
    await holder?.exited
    const commit = await push({ 'manifests/a.yaml': map('a', '3') })
    await untilRead(`${maps}/a`, (a) => a?.data.value === '3')
    await untilEachSays(commit)
  })

  await t.test('a commit that cannot be read changes nothing, and says where', async (t) => {
    await push({ 'manifests/a.yaml': 'kind: [', 'manifests/c.yaml': map('c', '1') })
    const [replica] = running()
    await eventually(async () => {
      const sources = await states(replica?.ports.kubernetes ?? 0)
      return sources.some(({ phase }) => phase === 'REFUSED')
    }, soon)
    const refused = await eventually(async () => {
      const answer = await status(replica?.ports.kubernetes ?? 0)
      if (!answer.out.includes(' REFUSED ')) throw new Error(answer.out)
      return answer
    }, soon)
    t.match(refused, { code: 1, out: /\(manifests\/a\.yaml:\d+\)/ })
    t.match(await read(`${maps}/a`), { data: { value: '3' } })
    t.equal(await read(`${maps}/c`), undefined)
  })
})

async function start(t: Test) {
  const folder = await mkdtemp(join(tmpdir(), 'gitops-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  const ports = await anyPorts(replicaCount)
  const example = (await exampleFor('real'))?.files
  const stack = new LocalStack({ folder, ports, programs: testPrograms, kubeconfig: undefined, assets, example })
  t.teardown(() => stack.stop(AbortSignal.abort()))
  await stack.start()
  const { authority, userCredential: token } = stack.access
  const clone = join(stack.folder, files.clone)
  /** reads an object through kas. @returns undefined: it is not there */
  // biome-ignore lint/suspicious/noExplicitAny: the shape is the API server's, or kas'
  const read = async (path: string, port = ports.kubernetes): Promise<any> => {
    const answer = await httpsGet(`https://127.0.0.1:${port}${path}`, { ca: authority, token })
    if (answer.status === 404) return undefined
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${answer.body}`)
    return JSON.parse(answer.body)
  }
  return {
    stack,
    read,
    running: () => stack.replicas.filter(({ pid }) => pid !== undefined),
    /** @param changed - contents by path; undefined: the file is removed. @returns the commit */
    push: async (changed: Readonly<Record<string, string | undefined>>) => {
      for (const [path, content] of Object.entries(changed)) {
        if (content === undefined) await rm(join(clone, path))
        else await writeFile(join(clone, path), content)
      }
      const script = 'git add --all && git commit --quiet --message change && git push --quiet && git rev-parse HEAD'
      const { code, out, err } = await run('sh', ['-c', script], clone)
      if (code !== 0) throw new Error(err)
      return out.trim()
    },
    /** state of the sources, from one replica; shows when `status` can be asked */
    states: async (port: number): Promise<readonly { readonly phase: string; readonly commit: string }[]> =>
      (await read('/gitops/state', port)).sources,
    /** output of `kas gitops status`, from one replica */
    status: async (port: number) => {
      const kubeconfig = join(folder, `${port}.kubeconfig`)
      const server = `https://127.0.0.1:${port}`
      await writeFile(kubeconfig, kubeconfigText({ server, authority, user: { token } }), { mode: 0o600 })
      const args = [mainOf('kas'), 'gitops', 'status', '--agent', String(agent.id), '--kubeconfig', kubeconfig]
      return run(process.execPath, args, folder)
    },
  }
}

const map = (name: string, value: string) =>
  JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace: 'shop' }, data: { value } })

function run(command: string, args: readonly string[], cwd: string) {
  return new Promise<{ code: number | null; out: string; err: string }>((resolve) => {
    const child = spawn(command, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'] })
    const read = Promise.all([child.stdout.toArray(), child.stderr.toArray()])
    child.on('close', (code) => void read.then(([out, err]) => resolve({ code, out: out.join(''), err: err.join('') })))
  })
}
