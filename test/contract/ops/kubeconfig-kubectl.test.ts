import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { parse } from 'yaml'
import { lockFiles } from '../../../src/kas/cli/kubeconfig/lock.ts'
import { systemClock } from '../../../src/lib/clock.ts'
import { commented, world } from '../../unit/kas/cli/cli-world.ts'

const run = promisify(execFile)
const assets = process.env.KUBEBUILDER_ASSETS
const skip = assets ? false : 'needs kubectl in KUBEBUILDER_ASSETS'

/** Runs kubectl with a kubeconfig. @returns its output; if it fails, stderr has the reason */
async function kubectl(config: string, ...args: string[]): Promise<{ stdout: string; stderr: string }> {
  return await run(join(assets ?? '', 'kubectl'), ['--kubeconfig', config, ...args]).catch((error) => error)
}

t.test('kubectl reads what kas has written, and kas adds to what kubectl has written', { skip }, async (t) => {
  const { kas, folder } = world(t, commented)
  await kas('agent create prod --project platform/clusters')
  await kas('user create ada')
  const config = join(folder, 'config')
  const add = () => kas(`kubeconfig --agent prod --user ada --server https://kas:8154 --file ${config}`)
  await kubectl(config, 'config', 'set-cluster', 'prod', '--server=https://prod')
  await kubectl(config, 'config', 'set-context', 'prod', '--cluster=prod')
  await kubectl(config, 'config', 'use-context', 'prod')
  t.equal((await add()).code, 0)
  const { stdout } = await kubectl(config, 'config', 'get-contexts', '--output=name')
  t.same(stdout.trim().split('\n').sort(), ['platform/clusters:prod', 'prod'])
  t.equal((await kubectl(config, 'config', 'current-context')).stdout, 'prod\n')
  const view = ['config', 'view', '--raw', '--output=jsonpath={.users[0].user.token}']
  t.match((await kubectl(config, ...view)).stdout, /^pat:1:kaspat-[\w-]{48}$/)
})

t.test('both write at once: kas loses nothing that kubectl has written', { skip }, async (t) => {
  const { kas, folder } = world(t, commented)
  await kas('user create ada')
  const names = Array.from({ length: 8 }, (_, i) => `a${i}`)
  for (const name of names) await kas(`agent create ${name} --project platform/clusters`)
  const config = join(folder, 'config')
  const addAll = async () => {
    for (const name of names) {
      const { code, stderr } = await kas(
        `kubeconfig --agent ${name} --user ada --server https://kas:8154 --file ${config}`,
      )
      t.equal(code, 0, stderr)
    }
  }
  /** Sets all names in a row. kubectl reads the file before it locks it, so a concurrent change would be lost. */
  const setAll = async () => {
    const written: string[] = []
    for (const name of names) {
      const { stderr } = await kubectl(config, 'config', 'set-cluster', name, `--server=https://${name}`)
      if (!/config\.lock/.test(String(stderr))) written.push(name) // kubectl does not wait for the lock
    }
    return written
  }
  const [written] = await Promise.all([setAll(), addAll()])
  const { clusters } = parse(await readFile(config, 'utf8'))
  const found = clusters.map(({ name }: { name: string }) => name)
  t.same(
    written.filter((name) => !found.includes(name)),
    [],
  )
})

t.test('kubectl does not write while kas has the lock', { skip }, async (t) => {
  const { folder } = world(t, commented)
  const config = join(folder, 'config')
  await writeFile(config, '')
  const unlock = await lockFiles([config], systemClock)
  const set = async () => await kubectl(config, 'config', 'set-cluster', 'prod', '--server=https://prod')
  t.match((await set()).stderr, /config\.lock/)
  t.equal(await readFile(config, 'utf8'), '')
  await unlock()
  t.match((await set()).stdout, /Cluster "prod" set/)
})
