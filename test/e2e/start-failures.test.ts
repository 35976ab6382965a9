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
  said,
  signalGroup,
  start,
} from '../support/local-start.ts'

t.test(
  'serves the cluster that is named; goes on without a replica; says which part it cannot do without ended',
  async (t) => {
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
    t.notMatch(running.screen, 'gitops', 'nothing is brought to a cluster that somebody has named')
    const [watched = ''] = await firstLines(running.lines.at(-1) ?? '', 1)
    t.match(JSON.parse(watched), { type: 'ADDED', object: { kind: 'Namespace' } })

    const kill = (file: string) => {
      const [line = ''] = processesNaming(`${project}/${running.folder}/${file}`)
      process.kill(Number.parseInt(line, 10), 'SIGKILL')
    }
    kill('kas-1.yaml')
    await said(running, /kas-1 has ended, the others go on\.\n\n {2}replica .*\n {2}kas-0 +ready.*\n {2}kas-1 +gone /)
    const [again = ''] = await firstLines(running.lines.at(-1) ?? '', 1)
    t.match(JSON.parse(again), { type: 'ADDED' })
    kill('agent.token')
    t.equal(await running.exited, 1)
    t.match(running.output(), /npm start: agentk ended by itself\. The end of \S+agentk\.log:\n\n\{/)
    t.same(processesNaming(`${project}/${running.folder}/`), [])
  },
)

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
    changed.addEventListener('change', () => output().includes('replicas of kas') && resolve())
  })
  const claimed = (await livingStateFolders(join(project, '.run'))).find(({ path }) => ownerOf(path) === child.pid)
  signalGroup(child, 'SIGINT')
  t.equal(await exited, 0)
  t.match(output(), /stopping\n$/)
  t.notMatch(output(), 'kas runs')
  t.same(processesNaming(`${claimed?.path}/`), [])
})
