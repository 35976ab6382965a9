import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, chown, lstat, mkdir, readdir, readFile, readlink, stat, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { commented, world } from '../cli-world.ts'

/** Files, links and pipes that another user has put at the path of the token. */

const nobody = 65534
const isRoot = process.geteuid?.() === 0
const skip = !isRoot && 'needs root'
const server = 'https://kas.example.com:8154'

async function filled(t: Test) {
  const parts = world(t, commented)
  await parts.kas('agent create prod --project platform/clusters')
  await parts.kas('user create ada')
  const config = join(parts.folder, 'config')
  const add = (file = config) =>
    parts.kas(`kubeconfig --agent prod --user ada --server ${server} --file ${file} --token-name laptop`)
  const tokens = async () => (await parts.kas('token list --user ada')).stdout
  return { ...parts, config, add, tokens }
}

const clusters = 'clusters: []\n'
const names = async (folder: string) => (await readdir(folder)).filter((name) => name !== 'directory.yaml').sort()

t.test('a file of another user is refused, for root too, with what to do', { skip }, async (t) => {
  const { add, config, folder, tokens } = await filled(t)
  const before = await tokens()
  await writeFile(config, clusters, { mode: 0o666 })
  await chmod(config, 0o666)
  await chown(config, nobody, nobody)
  const { code, stderr } = await add()
  t.equal(code, 1)
  t.match(stderr, `${config} belongs to another user (uid ${nobody}, you are 0): no token goes there.`)
  t.match(stderr, `chown 0 ${config}`)
  t.equal(await readFile(config, 'utf8'), clusters)
  t.equal(await tokens(), before, 'no token was made')
  t.strictSame(await names(folder), ['config'], 'no lock is left')
  await chown(config, 0, 0)
  t.equal((await add()).code, 0)
})

t.test('a file that others may read is the own user’s alone as soon as a token is in it', async (t) => {
  const { add, config } = await filled(t)
  for (const mode of [0o644, 0o640, 0o666, 0o604, 0o620]) {
    await writeFile(config, clusters)
    await chmod(config, mode)
    const { code, stderr } = await add()
    t.equal(code, 0, stderr)
    t.match(stderr, `note: ${config} had mode 0${mode.toString(8)}, and has a token in it: its mode is 0600 now`)
    t.equal((await stat(config)).mode & 0o777, 0o600)
  }
  const text = await readFile(config, 'utf8')
  await chmod(config, 0o644)
  t.match((await add()).stderr, 'its mode is 0600 now')
  t.equal(await readFile(config, 'utf8'), text, 'nothing else was to change')
  t.equal((await stat(config)).mode & 0o777, 0o600)
  t.notMatch((await add()).stderr, 'note:')
})

/** Paths that are not regular files, each with the function that makes one. */
interface NoFile {
  readonly kind: string
  readonly make: (path: string, t: Test) => Promise<void>
}

const noFiles: Readonly<Record<string, NoFile>> = {
  'a pipe is refused before it is opened, and stays': {
    kind: 'pipe',
    make: async (path) => void execFileSync('mkfifo', [path]),
  },
  'a folder is refused before it is opened, and stays': {
    kind: 'folder',
    make: async (path) => void (await mkdir(path)),
  },
  'a socket is refused before it is opened, and stays': {
    kind: 'socket',
    make: async (path, t) => {
      const listening = createServer().listen(path)
      t.teardown(() => listening.close())
      await once(listening, 'listening')
    },
  },
  'a device is refused before it is opened, and stays': {
    kind: 'device',
    make: async (path) => void execFileSync('mknod', [path, 'c', '1', '3']),
  },
}

for (const [title, { kind, make }] of Object.entries(noFiles)) {
  t.test(title, { skip: kind === 'device' && skip }, async (t) => {
    const { add, folder, tokens, kas } = await filled(t)
    t.chdir(folder) // a short path, because the path of a socket is bounded
    const before = await tokens()
    await make('config', t)
    const refused = await add('config')
    t.match(refused, { code: 1, stderr: new RegExp(`config is a ${kind}: nothing is written there`) })
    await symlink('config', 'link')
    t.match(await add('link'), { code: 1, stderr: new RegExp(`config is a ${kind}`) }, 'by a link')
    t.equal(await tokens(), before)
    await make('.new.kas-token-1', t)
    t.match(
      await add('new'),
      { code: 1, stderr: new RegExp(`kas-token-1 is a ${kind}`) },
      'in place of a token that waits',
    )
    t.strictSame(await names(folder), ['.new.kas-token-1', 'config', 'link'], 'no lock is left')
    if (kind === 'device') {
      const made = await kas('user create bob --directory config')
      t.match(made, { code: 1, stdout: '', stderr: /config is a device: nothing is written there/ }, 'a directory file')
    }
    const found = await lstat('config')
    t.notOk(found.isFile(), 'it is what it was')
  })
}

t.test('a link of another user is not followed, nor one that leads to another user’s file', { skip }, async (t) => {
  const { add, config, folder } = await filled(t)
  await mkdir(join(folder, 'real'))
  await symlink('real/config', config)
  execFileSync('chown', ['-h', String(nobody), config])
  const refused = await add()
  t.match(refused, { code: 1, stderr: new RegExp(`config belongs to another user .* chown -h 0 ${config}`) })
  t.strictSame(await names(join(folder, 'real')), [])
  execFileSync('chown', ['-h', '0', config])
  await writeFile(join(folder, 'real', 'config'), clusters)
  await chown(join(folder, 'real', 'config'), nobody, nobody)
  t.match(await add(), { code: 1, stderr: /real\/config belongs to another user/ })
  await chown(join(folder, 'real', 'config'), 0, 0)
  t.equal((await add()).code, 0)
  t.equal(await readlink(config), 'real/config')
  t.equal((await stat(config)).mode & 0o777, 0o600)
  t.strictSame(await names(folder), ['config', 'real'])
})

t.test('links that lead to one another are refused', async (t) => {
  const { add, config, folder } = await filled(t)
  await symlink('other', config)
  await symlink('config', join(folder, 'other'))
  t.match(await add(), { code: 1, stderr: /leads from link to link/ })
  t.strictSame(await names(folder), ['config', 'other'])
})

t.test('in a folder that all may write to, a file of one’s own is made, and nobody else reads it', async (t) => {
  const { add, folder } = await filled(t)
  const common = join(folder, 'common')
  await mkdir(common)
  await chmod(common, 0o1777)
  t.equal((await add(join(common, 'config'))).code, 0)
  t.strictSame(await names(common), ['config'])
  t.equal((await stat(join(common, 'config'))).mode & 0o777, 0o600)
})

t.test('a signal leaves no lock', async (t) => {
  const { config, folder, file, kas } = await filled(t)
  const { stdout: token } = await kas('token create --user ada')
  await writeFile(join(folder, 'token'), token)
  const silent = createServer()
  await once(silent.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => silent.close())
  const { port } = silent.address() as { port: number }
  const main = join(import.meta.dirname, '../../../../../src/kas/main.ts')
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    const line = `kubeconfig --all --server http://127.0.0.1:${port} --token-file ${folder}/token --file ${config}`
    const child = spawn(process.execPath, [main, ...line.split(' ')], {
      stdio: 'ignore',
      env: { ...process.env, KAS_DIRECTORY_FILE: file },
    })
    const closed = once(child, 'close')
    const [socket] = await once(silent, 'connection')
    t.teardown(() => socket.destroy())
    t.ok((await names(folder)).includes('config.lock'), 'it holds the file')
    child.kill(signal)
    t.strictSame(await closed, [null, signal], 'it ends as the signal says')
    t.strictSame(await names(folder), ['token'])
  }
})
