import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chown, mkdir, mkdtemp, readdir, rm, symlink, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { createLogger } from '../../../src/lib/log.ts'
import { TemporaryFolder } from '../../../src/lib/temporary-folder.ts'

const log = createLogger({ level: 'silent' })
const source = new URL('../../../src/lib/temporary-folder.ts', import.meta.url).href

/** Makes a folder outside the project, because the path of a socket is short. */
async function parentOf(t: Test): Promise<string> {
  const parent = await mkdtemp(join(tmpdir(), 'tf-'))
  t.teardown(() => rm(parent, { recursive: true, force: true }))
  return parent
}

async function started(t: Test, parent: string): Promise<TemporaryFolder> {
  const folder = new TemporaryFolder({ log }, { program: 'agentk', parent })
  t.teardown(() => folder.stop())
  await folder.start()
  return folder
}

/** Makes a folder look as if it was made long ago. */
async function age(path: string): Promise<void> {
  await utimes(join(path, 'owner.sock'), 0, 0)
}

/** Makes the folder of another process. */
async function other(t: Test, parent: string, program = 'agentk'): Promise<{ path: string; kill(): Promise<void> }> {
  const script = `
    const { TemporaryFolder } = await import(${JSON.stringify(source)})
    const log = { info() {}, debug() {} }
    const folder = new TemporaryFolder({ log }, { program: ${JSON.stringify(program)}, parent: ${JSON.stringify(parent)} })
    await folder.start()
    process.stdout.write(folder.path)
    setInterval(() => {}, 1000)`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const [path] = await once(child.stdout, 'data')
  await age(String(path))
  const kill = async () => {
    const exit = once(child, 'exit')
    child.kill('SIGKILL')
    await exit
  }
  return { path: String(path), kill }
}

t.test('where none can be made it says where, why and what to do', async (t) => {
  const parent = join(await parentOf(t), 'none')
  await t.rejects(started(t, parent), {
    code: 'SETTINGS_INVALID',
    message: `environment: TMPDIR: no folder can be made in ${parent} (ENOENT): mount a volume there that is writable, or name one`,
  })
})

t.test('it lives from start to stop, for its owner alone', async (t) => {
  const parent = await parentOf(t)
  const folder = await started(t, parent)
  await writeFile(join(folder.path, 'a'), '')
  t.equal(dirname(folder.path), parent)
  await folder.stop()
  t.same(await readdir(parent), [])
})

t.test('what a killed process left is removed, what a living one has, or another program left, stays', async (t) => {
  const parent = await parentOf(t)
  const left = await other(t, parent)
  const living = await other(t, parent)
  const foreign = await other(t, parent, 'kas')
  await left.kill()
  await foreign.kill()
  t.ok(existsSync(left.path))
  const folder = await started(t, parent)
  t.same(
    (await readdir(parent)).toSorted(),
    [folder.path, living.path, foreign.path].map((path) => basename(path)).toSorted(),
  )
})

t.test('a folder that is not known to be stale stays', async (t) => {
  const parent = await parentOf(t)
  const { path } = await started(t, parent)
  const prefix = path.slice(0, -36)
  const others = [`${prefix}without-lock`, `${prefix}with-a-file`, join(parent, 'kas-0000-another-machine')]
  for (const one of others) await mkdir(one)
  await writeFile(`${prefix}with-a-file/owner.sock`, '')
  await age(`${prefix}with-a-file`)
  await started(t, parent)
  for (const one of others) t.ok(existsSync(one), one)
})

t.test('what another user has made stays', { skip: process.getuid?.() !== 0 && 'needs root' }, async (t) => {
  const parent = await parentOf(t)
  const left = await other(t, parent)
  await left.kill()
  await chown(left.path, 65_534, 65_534)
  const link = left.path.replace(/.{36}$/, 'link')
  await symlink(left.path, link)
  await started(t, parent)
  t.ok(existsSync(left.path))
  t.ok(existsSync(link))
})

t.test('a TMPDIR too long for a socket will do', async (t) => {
  const parent = join(await parentOf(t), 'x'.repeat(200))
  await mkdir(parent)
  const folder = await started(t, parent)
  t.ok(existsSync(folder.path))
})
