import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import { absent } from '../support/absent.ts'
import { eventually } from '../support/eventually.ts'
import {
  firstLines,
  listenerAt,
  ownerOf,
  plainEnv,
  processesNaming,
  project,
  run,
  signalGroup,
  start,
} from '../support/local-start.ts'

/** Starts a server that counts connections, as a cluster that the commands must not use. */
async function trap(t: Test) {
  let connections = 0
  const server: Server = createServer((socket) => {
    connections++
    socket.destroy()
  })
  t.teardown(() => server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as { port: number }
  const config = kubeconfigText({ server: `https://127.0.0.1:${port}`, authority: '', user: { token: 'none' } })
  const home = t.testdir({ '.kube': { config } })
  return { home, kubeconfig: join(home, '.kube/config'), connections: () => connections }
}

/** time limit on a busy machine */
const soon = { timeoutMs: 60_000 }

/** Runs a line until its output matches. */
function untilSays(t: Test, line: string, pattern: RegExp, env = plainEnv): Promise<void> {
  return eventually(async () => {
    const { out, err } = await run(t, line, env)
    if (!pattern.test(out)) throw new Error(`${line}: ${out}${err}`)
  }, soon)
}

/** Runs the printed lines one after another: each works, and the object is there. */
async function pushedByItsLine(t: Test, lines: readonly string[], env: NodeJS.ProcessEnv): Promise<void> {
  const [push = '', status = '', object = ''] = lines.slice(4)
  t.match(await run(t, push, env), { code: 0 })
  const pushedAt = performance.now()
  t.match(await run(t, status, env), { code: 0, out: / SYNCED / })
  t.match(await run(t, object, env), { code: 0, out: /"kind": ?"ConfigMap".*"text": ?"hello"/s })
  t.comment(`from push to object: ${Math.round(performance.now() - pushedAt)} ms`)
}

/** Runs the line about the Deployment that is broken on purpose: it shows the cause. */
async function brokenByItsLine(t: Test, lines: readonly string[], env: NodeJS.ProcessEnv): Promise<void> {
  const broken = await run(t, lines[2] ?? '', env)
  t.match(broken, { code: 0, out: /Deployment\/broken/ })
  t.match(broken.out.replaceAll(/\s+/g, ' '), /ServiceAccountMissing: .*serviceaccount "absent" not found/)
}

/** limit of a stop: kas and agentk have 5 s each before they are killed. ms */
const stopMs = 10_000

t.test('npm start, one beside another', async (t) => {
  const trapped = await trap(t)
  const env = { ...plainEnv, HOME: trapped.home, KUBECONFIG: trapped.kubeconfig }
  const first = await start(t, ['npm', 'start'], env)
  const second = await start(t, ['npm', 'start'])

  await t.test('the lines of the first one work as printed', async (t) => {
    const [kubectlLine = '', treeLine = '', , listLine = ''] = first.lines
    t.match(first.screen, /embedded API double .*: no real cluster/)
    for (const name of ['kas-0', 'kas-1', 'kas-2']) t.match(first.screen, new RegExp(`^  ${name} +ready .* 3$`, 'm'))
    t.match(first.screen, /^ {2}kas-\d .* home +1 +3$/m)
    if (!absent('kubectl')) {
      const listed = await run(t, kubectlLine, env)
      t.match(listed.out, /^NAMESPACE +NAME +READY/)
      t.match(listed.out, /kube-system +embedded-api-double +1\/1 +Running/)
      t.equal(listed.code, 0)
    }
    t.match(await run(t, treeLine, env), { code: 0, out: /^✓ demo\/Pod\/clock {2}Running/m })
    await brokenByItsLine(t, first.lines, env)
    t.match(JSON.parse((await run(t, listLine)).out), { kind: 'NamespaceList' })
    for (const line of await firstLines(first.lines.at(-1) ?? '', 5))
      t.match(line, /clock: line \d+ of the embedded API double/)
  })

  await t.test(
    'so do those of the second one; Ctrl-C leaves nothing of the first one, and the second goes on',
    async (t) => {
      t.not(second.folder, first.folder)
      const [kubectlLine = '', , , listLine = ''] = second.lines
      t.match(JSON.parse((await run(t, listLine)).out), { kind: 'NamespaceList' })
      if (!absent('kubectl')) t.equal((await run(t, kubectlLine)).code, 0)

      const followLine = first.lines.at(-1) ?? ''
      const following = spawn('sh', ['-c', followLine], { cwd: project, stdio: ['ignore', 'pipe', 'ignore'] })
      t.teardown(() => following.kill('SIGKILL'))
      await once(following.stdout, 'data')
      const interruptedAt = performance.now()
      signalGroup(first.child, 'SIGINT') // as a terminal does: npm gets it too
      t.equal(await first.exited, 0)
      t.ok(performance.now() - interruptedAt < stopMs, 'a call that goes on for ever does not hold it up')
      t.notOk(existsSync(join(project, first.folder)), 'its folder with its secrets is gone')
      t.same(processesNaming(`${project}/${first.folder}/`), [])
      t.match(JSON.parse((await run(t, listLine)).out), { kind: 'NamespaceList' }, 'the second goes on')
      t.equal(trapped.connections(), 0, 'no cluster was touched that was not named')
    },
  )

  const { folder, lines } = second
  await t.test('kubectl works through kas', { skip: absent('kubectl') ? 'needs kubectl' : false }, async (t) => {
    const env = { ...plainEnv, KAS_RUN: folder.split('/').at(-1) }
    const kubectl = (args: string) => run(t, `npm run -s kubectl -- ${args}`, env)
    t.match(await kubectl('create configmap a --from-literal=x=y -n demo'), { code: 0 })
    t.match(await kubectl('get cm a -n demo -o jsonpath={.data.x}'), { code: 0, out: /^y$/ })
    t.match(await kubectl('exec -n demo echo -- echo through the tunnel'), { code: 0, out: /^through the tunnel\n$/ })
    t.match(await kubectl('exec -n demo echo -- false'), { code: 1 })
    t.match(await kubectl('delete cm a -n demo'), { code: 0 })
    t.match(await kubectl('get cm a -n demo'), { code: 1, err: /NotFound/ })
    t.match(await run(t, 'npm run -s kubectl -- version', { ...plainEnv, KAS_RUN: '99' }), {
      code: 1,
      err: /number 99/,
    })
  })

  await t.test('the line that pushes brings its object; what the double cannot keep is said by name', async (t) => {
    await pushedByItsLine(t, lines, plainEnv)
    const clone = join(folder, 'clusters')
    const manifest = '{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}}'
    const push = `cd ${clone} && echo '${manifest}' > manifests/web.yaml && git add . && git commit -qm web && git push -q`
    t.match(await run(t, push), { code: 0 })
    await untilSays(
      t,
      lines[5] ?? '',
      /^demo\/clusters: FAILING\n +Service shop\/web: nobody serves Service .*\(manifests\/web.yaml:1\)/m,
    )
    t.match(await run(t, `cd ${clone} && git rm -q manifests/web.yaml && git commit -qm none && git push -q`), {
      code: 0,
    })
    await untilSays(t, lines[5] ?? '', / SYNCED /)
  })

  await t.test('a push changes who may use the agent', async (t) => {
    const list = lines[3] ?? ''
    t.match(JSON.parse((await run(t, list)).out), { kind: 'NamespaceList' })
    const clone = join(t.testdir(), 'clone')
    const script = [
      `git clone -q ${folder}/clusters.git ${clone}`,
      `cd ${clone}`,
      'echo "{}" > .gitlab/agents/demo/config.yaml',
      'git -c user.name=t -c user.email=t@localhost commit -qam none',
      'git push -q',
    ].join(' && ')
    t.match(await run(t, script), { code: 0 })
    const refused = { kind: 'Status', code: 401 }
    await eventually(async () => {
      const { out } = await run(t, list)
      if (JSON.parse(out).kind !== refused.kind) throw new Error(out) // no message announces a push to a caller
      t.match(JSON.parse(out), refused)
    })
  })

  await t.test('SIGKILL ends the second one, and its children with it', async (t) => {
    const named = `${project}/${folder}/`
    const programs = processesNaming(named).filter((line) => line.includes('/main.ts ')) // git runs now and then, too
    t.equal(programs.length, 4, 'three replicas and agentk')
    const { observability } = parse(readFileSync(join(project, folder, 'kas-1.yaml'), 'utf8'))
    const agentkOps = /--observability-listen-address=\S+:(\d+)/.exec(programs.join('\n'))?.[1]
    const kas = await listenerAt(t, Number(observability.listen.address.split(':')[1]))
    const agentk = await listenerAt(t, Number(agentkOps))
    process.kill(ownerOf(join(project, folder)), 'SIGKILL')
    await Promise.all([kas.ended, agentk.ended])
    t.same(processesNaming(named), [])
  })
})

const withoutServer = missingAssets(process.env.KUBEBUILDER_ASSETS, 'api').length > 0 ? 'needs kube-apiserver' : false
t.test('with KUBEBUILDER_ASSETS it serves a real API server', { skip: withoutServer }, async (t) => {
  const { lines, screen, child, exited, folder } = await start(t, ['node', 'dev/start.ts'], process.env)
  t.match(screen, 'a real API server')
  t.match(JSON.parse((await run(t, lines[3] ?? '')).out), { kind: 'NamespaceList' })
  await brokenByItsLine(t, lines, process.env)
  t.match(JSON.parse((await firstLines(lines.at(-1) ?? '', 1))[0] ?? ''), { type: 'ADDED' })
  await pushedByItsLine(t, lines, process.env)
  t.equal((await run(t, lines[0] ?? '', process.env)).code, 0)
  signalGroup(child, 'SIGINT')
  t.equal(await exited, 0)
  t.same(processesNaming(`${project}/${folder}/`), [])
})
