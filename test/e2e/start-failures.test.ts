import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { ApiDouble } from '../../dev/api-double/api-double.ts'
import { Authority } from '../../dev/certificates.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import { livingStateFolders } from '../../dev/start/state-folder.ts'
import {
  firstLines,
  launch,
  ownerOf,
  plainEnv,
  processesNaming,
  project,
  signalGroup,
  start,
} from '../support/local-start.ts'

t.test('serves the cluster that is named; says which part ended by itself', async (t) => {
  const authority = await Authority.create('named cluster')
  const serving = await authority.issueServing({ dns: [], ip: ['127.0.0.1'] })
  const cluster = new ApiDouble({ serving, clientAuthority: authority.certificate }, { token: 'named' })
  t.teardown(() => cluster.stop())
  await cluster.start()
  const file = join(t.testdir(), 'named.kubeconfig')
  writeFileSync(
    file,
    kubeconfigText({ server: cluster.url, authority: authority.certificate, user: { token: 'named' } }),
  )
  const running = await start(t, ['node', 'dev/start.ts', '--kubeconfig', file])
  t.match(running.screen, `the one that ${file} names`)
  const [watched = ''] = await firstLines(t, running.lines[2] ?? '', 1)
  t.match(JSON.parse(watched), { type: 'ADDED', object: { kind: 'Namespace' } })

  const [kas = ''] = processesNaming(`${project}/${running.folder}/kas.yaml`)
  process.kill(Number.parseInt(kas, 10), 'SIGKILL')
  t.equal(await running.exited, 1)
  t.match(running.output(), /npm start: kas ended by itself\. The end of \S+kas\.log:\n\n\{/)
  t.same(processesNaming(`${project}/${running.folder}/`), [])
})

t.test('a taken port is named, with the way to choose others', async (t) => {
  const server = createServer()
  t.teardown(() => server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as { port: number }
  const { exited, output } = launch(t, ['node', 'dev/start.ts', '--port-base', String(port - 4)], plainEnv)
  t.equal(await exited, 1)
  t.match(output(), /Port \d+ is taken.*--port-base N/)
  const wrong = launch(t, ['node', 'dev/start.ts', '--port-base', 'x'], plainEnv)
  t.equal(await wrong.exited, 1)
  const missing = launch(t, ['node', 'dev/start.ts', '--kubeconfig', '/does/not/exist'], plainEnv)
  t.equal(await missing.exited, 1)
  t.match(missing.output(), '/does/not/exist cannot be read')
})

t.test('Ctrl-C while it starts', async (t) => {
  const { child, exited, output, changed } = launch(t, ['node', 'dev/start.ts'], plainEnv)
  await new Promise<void>((resolve) => {
    changed.addEventListener('change', () => output().includes('starting kas') && resolve())
  })
  const claimed = (await livingStateFolders(join(project, '.run'))).find(({ path }) => ownerOf(path) === child.pid)
  signalGroup(child, 'SIGINT')
  t.equal(await exited, 0)
  t.match(output(), /stopping\n$/)
  t.notMatch(output(), 'kas runs')
  t.same(processesNaming(`${claimed?.path}/`), [])
})
