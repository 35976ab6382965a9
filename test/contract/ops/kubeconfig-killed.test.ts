import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { parse } from 'yaml'
import { tokenHash } from '../../../src/lib/token-hash.ts'
import { commented, world } from '../../unit/kas/cli/cli-world.ts'

const root = join(import.meta.dirname, '../../..')
const killer = pathToFileURL(join(root, 'test/support/killed-at-step.ts')).href

const foreign = `# by hand
clusters: [{name: prod, cluster: {server: "https://prod"}}]
users: []
contexts: [{name: prod, context: {cluster: prod}}] # careful
current-context: prod
`

t.test('killed at each step: the old file or the new one, and no token that nobody has', async (t) => {
  const { kas, file, folder } = world(t, commented)
  await kas('agent create prod --project platform/clusters')
  await kas('user create ada')
  const other = join(folder, 'other')
  const line = (output: string) =>
    `kubeconfig --agent prod --user ada --server https://kas:8154 --token-name laptop --file ${output}`
  await kas(line(other))
  const directory = await readFile(file, 'utf8')
  const config = join(folder, 'config')

  const run = async (killAt: number) => {
    const args = ['--import', killer, join(root, 'src/kas/main.ts'), ...line(config).split(' ')]
    const env = { ...process.env, KAS_DIRECTORY_FILE: file, KILL_AT: String(killAt) }
    const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'ignore', 'pipe'] })
    let said = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
    const [, signal] = await once(child, 'close')
    return { signal, steps: Number(/^steps (\d+)$/m.exec(said)?.[1] ?? 0), said }
  }
  const begin = async () => {
    for (const name of await readdir(folder)) if (name !== 'other') await rm(join(folder, name))
    await writeFile(file, directory)
    await writeFile(config, foreign)
  }
  const tokenIn = async (path: string) => /kaspat-[\w-]+/.exec(await readFile(path, 'utf8'))?.[0] ?? ''
  const named = async () => {
    const { users } = parse(await readFile(file, 'utf8'))
    return users[0].tokens.filter(({ name }: { name?: string }) => name === 'laptop')
  }

  await begin()
  const whole = await run(0)
  t.ok(whole.steps >= 10, whole.said)
  const changed = await readFile(config, 'utf8')
  const shape = (text: string) => text.replaceAll(/kaspat-[\w-]+/g, 'a token')
  for (let at = 1; at <= whole.steps; at++) {
    await begin()
    t.equal((await run(at)).signal, 'SIGKILL', `step ${at}`)
    const text = await readFile(config, 'utf8')
    t.ok(text === foreign || shape(text) === shape(changed), `step ${at}: the old file or the new one`)
    const holders = (await readdir(folder)).filter((name) => name === 'other' || name.includes('config'))
    const held = await Promise.all(holders.map((name) => tokenIn(join(folder, name))))
    const hashes = held.map((token) => tokenHash(token))
    const [token, ...more] = await named()
    t.same(more, [])
    t.ok(hashes.includes(token.sha256), `step ${at}: somebody has the token`)
    await rm(`${config}.lock`, { force: true }) // the message of the next call says so if a lock is left
    const again = await kas(line(config))
    t.equal(again.code, 0, again.stderr)
    t.equal(shape(await readFile(config, 'utf8')), shape(changed))
    const hash = tokenHash(await tokenIn(config))
    t.same(
      (await named()).map(({ sha256 }: { sha256: string }) => sha256),
      [hash],
    )
    if (token.sha256 !== tokenHash(await tokenIn(other))) t.equal(hash, token.sha256, `step ${at}: the token is found`)
    t.notOk((await readdir(folder)).some((name) => name.includes('kas-token-') && !name.endsWith('.tmp')))
  }
})
