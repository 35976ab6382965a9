import { spawnSync } from 'node:child_process'
import { mkdir, mkdtemp, readdir, rm, utimes } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { eventually } from '../../../support/eventually.ts'
import { ProjectKas, startGitops } from './gitops-side.ts'
import { Ground, skip } from './ground.ts'

/** agentk removes the rendered files that a killed agentk left. */

t.test('agentk removes what a killed one left behind, once it has a source', { skip, timeout: 60_000 }, async (t) => {
  const ground = await Ground.start(t) // starts before TMPDIR changes
  const parent = await mkdtemp(join(tmpdir(), 'tf-'))
  const before = process.env.TMPDIR
  t.teardown(async () => {
    if (before === undefined) delete process.env.TMPDIR
    else process.env.TMPDIR = before
    await rm(parent, { recursive: true, force: true })
  })
  process.env.TMPDIR = parent
  await leaveBehind(parent)
  const [left = ''] = await readdir(parent)
  t.same(await readdir(join(parent, left)), ['agentk-render-x', 'owner.sock'])
  const source = { id: 'platform/shop', default_namespace: 'default' }
  const { stop } = await startGitops(t, ground, new ProjectKas(7n), { manifest_projects: [source] })
  await eventually(async () => {
    const names = await readdir(parent)
    return !names.includes(left) && names.some((name) => name.startsWith('agentk-'))
  })
  await stop()
  t.same(
    (await readdir(parent)).filter((name) => name.startsWith('agentk-')),
    [],
    'nor does a term leave one',
  )
})

/** Leaves the folder of an agentk that is killed while it renders. */
async function leaveBehind(parent: string): Promise<void> {
  const url = new URL('../../../../src/lib/temporary-folder.ts', import.meta.url).href
  const script = `
    const { TemporaryFolder } = await import(${JSON.stringify(url)})
    const folder = new TemporaryFolder({ log: { info() {}, debug() {} } }, { program: 'agentk' })
    await folder.start()
    process.kill(process.pid, 'SIGKILL')`
  spawnSync(process.execPath, ['--input-type=module', '-e', script], { env: { ...process.env, TMPDIR: parent } })
  const [name = ''] = await readdir(parent)
  await mkdir(join(parent, name, 'agentk-render-x'))
  await utimes(join(parent, name, 'owner.sock'), 0, 0)
}
