import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { tokenHash } from '../../../../src/lib/token-hash.ts'
import { commented, world } from './cli-world.ts'

/** Lifetime of tokens: 90 days for users, 1 day for jobs, unlimited for agents. */

const dayMs = 86_400_000

/** Returns the days until a token expires. */
const daysLeft = (expiresAt: number | undefined) =>
  expiresAt === undefined ? 'never' : Math.round((expiresAt - Date.now()) / dayMs)

async function filled(t: Test) {
  const all = world(t, commented)
  const made = await all.kas('user create ada --role platform/clusters=developer')
  t.equal(made.code, 0, made.stderr)
  const agent = await all.kas('agent create prod --project platform/clusters')
  t.equal(agent.code, 0, agent.stderr)
  const job = '--job 9 --pipeline 9 --user ada --project platform/clusters'
  const endOf = async (token: string) => {
    const { agentTokens, userTokens, jobTokens } = await all.read()
    const hash = tokenHash(token.trim())
    const entry = agentTokens.get(hash) ?? userTokens.get(hash) ?? jobTokens.get(hash)
    t.ok(entry, 'the directory has it')
    return daysLeft(entry?.expiresAt)
  }
  return { ...all, made, agent, job, endOf }
}

t.test('what is made ends, unless it is of an agent, or --expires says otherwise; and it is said', async (t) => {
  const { kas, made, agent, job, endOf } = await filled(t)
  t.equal(await endOf(made.stdout), 90)
  t.match(made.stderr, /user ada has id 1; a token, shown this once; it ends at \d{4}-\d\d-\d\dT[\d:]+Z:/)
  t.equal(await endOf(agent.stdout), 'never')
  t.match(agent.stderr, /its token, shown this once; it never ends:/)
  const cases: readonly [command: string, days: number | 'never'][] = [
    ['token create --user ada', 90],
    ['token create --user ada --expires never', 'never'],
    ['token create --user ada --expires 7d', 7],
    [`token create ${job}`, 1],
    [`token create ${job} --expires never`, 'never'],
    [`token create ${job} --expires 3d`, 3],
    ['token create --agent prod', 'never'],
    ['token create --agent prod --expires 30d', 30],
    ['user create bob', 90],
    ['user create eve --expires never', 'never'],
  ]
  for (const [command, days] of cases) {
    const { code, stdout, stderr } = await kas(command)
    t.equal(code, 0, stderr)
    t.equal(await endOf(stdout), days, command)
    t.match(stderr, days === 'never' ? 'it never ends' : /it ends at \d{4}-/, command)
  }
})

t.test('a kubeconfig has a token that ends, and one that is there keeps its end', async (t) => {
  const { kas, folder, read } = await filled(t)
  const config = join(folder, 'kubeconfig')
  const add = `kubeconfig --agent prod --user ada --server https://kas.example.com --file ${config}`
  const endOf = async (name: string) =>
    daysLeft([...(await read()).userTokens.values()].find((one) => one.name === name)?.expiresAt)
  const first = await kas(`${add} --token-name laptop`)
  t.equal(first.code, 0, first.stderr)
  t.match(first.stderr, /the token laptop of ada is new: it ends at \d{4}-/)
  t.equal(await endOf('laptop'), 90)
  await kas(`${add} --token-name laptop --expires 5d`)
  const again = await kas(`${add} --token-name laptop`)
  t.match(again.stderr, /the token laptop of ada is there: it ends at \d{4}-/)
  t.equal(await endOf('laptop'), 5, 'as it was')
  const never = await kas(`${add} --token-name laptop --expires never`)
  t.match(never.stderr, 'it never ends')
  t.match((await kas(`${add} --token-name laptop`)).stderr, 'it never ends')
  t.equal(await endOf('laptop'), 'never')
})

t.test('all that exist keep their end, also when others are made', async (t) => {
  const old = `${commented}users:\n  - id: 5\n    username: ada\n    tokens: [{ sha256: "${'a'.repeat(64)}" }]\n`
  const { kas, read } = world(t, old)
  await kas('token create --user ada')
  t.equal((await read()).userTokens.get('a'.repeat(64))?.expiresAt, undefined)
  const rotated = await kas('token rotate aaaaaaaa')
  t.match(rotated.stderr, 'it never ends', 'it was made so')
  t.match((await kas('token list')).stdout, /EXPIRES\n.*\d{4}-.*\n.*never\n/)
})

t.test('a token of a user that ends is renewed by a rotation, that of an agent keeps its end', async (t) => {
  const { kas, endOf } = await filled(t)
  const { stdout: user } = await kas('token create --user ada --expires 3d')
  const renewed = await kas(`token rotate ${tokenHash(user.trim()).slice(0, 12)}`)
  t.equal(await endOf(renewed.stdout), 90)
  t.match(renewed.stderr, /it ends at \d{4}-.*; the old one is void:/)
  const { stdout: agent } = await kas('token create --agent prod --expires 3d')
  t.equal(await endOf((await kas(`token rotate ${tokenHash(agent.trim()).slice(0, 12)}`)).stdout), 3)
})

t.test('within 14 days of the end lists have a line that says what to do', async (t) => {
  const { kas, job, file } = await filled(t)
  const { stdout: soon } = await kas('token create --user ada --token-name laptop --expires 14d')
  await kas('token create --user ada --token-name later --expires 15d')
  const { stdout: ofAgent } = await kas('token create --agent prod --expires 2d')
  await kas(`token create ${job}`)
  const hash = tokenHash(soon.trim()).slice(0, 12)
  const line = new RegExp(
    `^note: the token ${hash} of user ada ends at \\d{4}-.*: kas token rotate ${hash} --keep 7d$`,
    'm',
  )
  const agentLine = `note: the token ${tokenHash(ofAgent.trim()).slice(0, 12)} of agent prod ends at `
  for (const command of ['token list', 'user list', 'user show ada', 'token list --user ada', `token show ${hash}`]) {
    const { stdout } = await kas(command)
    t.match(stdout, line, command)
    const isAll = command === 'token list'
    t.equal(stdout.match(/^note: /gm)?.length, isAll ? 2 : 1, command)
    if (isAll) t.match(stdout, agentLine)
  }
  t.match((await kas('agent list')).stdout, agentLine)
  t.match((await kas('agent show prod')).stdout, agentLine)
  for (const command of ['token list -o json', 'user list -o json']) {
    t.ok(Array.isArray(JSON.parse((await kas(command)).stdout).items), 'JSON alone')
  }
  const ended = (await readFile(file, 'utf8')).replaceAll(/expires: .*/g, 'expires: 2020-01-01')
  await writeFile(file, ended)
  const { stdout } = await kas('token list')
  t.notMatch(stdout, 'note: ', 'it is too late')
  t.match(stdout, '2020-01-01 (over)')
})
