import { createHash, randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parse, stringify } from 'yaml'
import type { KubernetesObject } from '../../../dev/control-plane/api-client.ts'
import { agent, files } from '../../../dev/start/settings.ts'
import { type People, type User, users } from './people.ts'

/** Users of the directory file, which kas reads again by itself. */
export async function filePeople(folder: string): Promise<People> {
  const path = join(folder, files.directory)
  const before: KubernetesObject = parse(await readFile(path, 'utf8'))
  const tokens = Object.fromEntries(users.map((name) => [name, `glpat-${randomBytes(12).toString('hex')}`]))
  const [first] = before.users
  before.users = users.map((username, i) => {
    const sha256 = createHash('sha256')
      .update(tokens[username] as string)
      .digest('hex')
    return { ...first, id: first.id + i, username, tokens: [{ sha256 }] }
  })
  const write = (directory: KubernetesObject) => writeFile(path, stringify(directory), { mode: 0o600 })
  await write(before)
  const credentialOf = (name: User) => `pat:${agent.id}:${tokens[name]}`
  const job = (await readFile(join(folder, files.jobHeader), 'utf8')).trim().replace(/^Authorization: Bearer /, '')
  return {
    name: 'the directory file',
    credentials: { job, ada: credentialOf('ada'), ben: credentialOf('ben'), cleo: credentialOf('cleo') },
    async take() {
      const after = structuredClone(before)
      after.ci_tokens = []
      for (const user of after.users) {
        if (user.username === 'ben') user.roles = {}
        if (user.username === 'cleo') user.tokens = []
      }
      await write(after)
    },
    give: () => write(before),
    stop: async () => undefined,
  }
}
