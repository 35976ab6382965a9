import { readFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { didYouMean } from '../../../lib/nearest-name.ts'
import { tokenHash } from '../../../lib/token-hash.ts'
import type { Agent } from '../../agent.ts'
import { askAgentsOfUser, endpointAt, tokenFrom } from '../../command/agents-of-user.ts'
import { required, textOption, UsageError } from '../../command/command.ts'
import type { Endpoint } from '../../command/endpoint.ts'
import { Unreached } from '../../command/reach/unreached.ts'
import type { DirectoryContents } from '../../directory/file/directory-contents.ts'
import type { CliContext } from '../directory-command.ts'
import { agentNamed, userNamed } from '../named-entries.ts'
import { defaultEnd, endText, expiresOption } from '../token.ts'
import { KubeconfigFiles } from './kubeconfig-files.ts'
import { machineToken, TokenOnItsWay } from './machine-token.ts'
import { bearerOf, placesFor, tokensAt } from './places.ts'

/**
 * Adds agents to a kubeconfig.
 *
 * @returns text for stdout
 * @throws UsageError, Error
 */
export async function addToKubeconfig(context: CliContext): Promise<string> {
  const { values, io, clock, directory } = context
  const server = serverOption(context)
  const ca = textOption(values, 'ca')
  const caData = ca === undefined ? {} : { 'certificate-authority-data': (await readFile(ca)).toString('base64') }
  checkOptions(context)
  const files = await KubeconfigFiles.open(textOption(values, 'file'), io.env, clock)
  try {
    const named = values.all || !directory.isNamed ? undefined : namedAgent(context)
    const caller = await callerOf(context, files)
    const { agents, owners } = named
      ? { agents: [named], owners: undefined }
      : await listAgents(context, server, files, caller)
    const { contents } = directory
    const ownOwner = (token: string) => ownerOf(contents, token) ?? owners?.get(token)
    const taken: UsageError[] = []
    for (const agent of agents) {
      try {
        addAgent(context, { agent, server, cluster: { server, ...caData }, files, caller, ownerOf: ownOwner })
      } catch (error) {
        if (!(error instanceof UsageError) || !values.all) throw error
        taken.push(error)
      }
    }
    const text = await write(context, files, caller)
    if (taken.length > 0) throw new UsageError(taken.map(({ message }) => message).join('\n'))
    return text
  } finally {
    await files.close()
  }
}

function checkOptions({ values, directory }: CliContext): void {
  if (values.all) {
    const alone = ['agent', 'context', 'project'].find((name) => textOption(values, name) !== undefined)
    if (alone !== undefined) throw new UsageError(`--${alone} and --all exclude one another`)
    if (values.print) throw new UsageError('--all asks kas, which has to know the token: without --print')
  } else required(textOption(values, 'agent'), '--agent, or --all')
  if ((values.all || !directory.isNamed) && values.ci) {
    throw new UsageError('a CI job is one for its own agents: --agent NAME, with a directory file')
  }
  const isOfFile = textOption(values, 'token-file') !== undefined
  if (isOfFile === (textOption(values, 'user') !== undefined)) throw new UsageError('one of --user and --token-file')
  if (values.ci && !isOfFile) throw new UsageError('--ci goes with --token-file')
  for (const name of ['token-name', 'expires'] as const) {
    if (isOfFile && textOption(values, name) !== undefined) throw new UsageError(`--${name} goes with --user`)
  }
}

function serverOption({ values, io }: CliContext): string {
  const server = required(textOption(values, 'server'), '--server')
  if (!URL.canParse(server) || !/^https?:$/.test(new URL(server).protocol)) {
    throw new UsageError(`--server ${server}: allowed is a URL with https`)
  }
  if (server.startsWith('http:')) io.stderr.write('note: kubectl sends no token over http: put TLS in front\n')
  return server
}

/** Time for which kas may not know a new token: without an announcement it reads its directory each 10 s. ms */
const knownWithinMs = 15_000
const firstPauseMs = 100

/** Bound of the tokens in a kubeconfig whose users are asked from kas. */
const maxForeignTokens = 20

/** kas' answers about the server. */
interface Asked {
  /** agents that let the caller in, or the named one */
  readonly agents: readonly ListedAgent[]
  /** users by token: those of the files for this server, and of the caller */
  readonly owners: ReadonlyMap<string, string>
}

async function listAgents(context: CliContext, server: string, files: KubeconfigFiles, caller: Caller): Promise<Asked> {
  const { values, clock, directory } = context
  await commit(context, caller)
  const endpoint = await endpointAt(server, caller.token, context)
  const end = clock.now() + (caller.isNew ? knownWithinMs : 0)
  const { agents, user } = await answeredBy(end, () => askAgentsOfUser(endpoint), clock)
  const owners = new Map([[caller.token, `user ${user}`]])
  for (const token of directory.isNamed ? [] : tokensAt(files, server).slice(0, maxForeignTokens)) {
    const other = owners.has(token) ? undefined : await userOf(await endpointAt(server, token, context))
    if (other !== undefined) owners.set(token, `user ${other}`)
  }
  const listed = agents.map(({ id, name, project }) => ({
    id: BigInt(id) as Agent['id'],
    name,
    project: { path: project },
  }))
  return { agents: values.all && listed.length > 0 ? listed : [onlyAgent(listed, { values, user, server })], owners }
}

/** Returns the user of a token; undefined: it is not valid any more. */
async function userOf(endpoint: Endpoint): Promise<string | undefined> {
  try {
    return (await askAgentsOfUser(endpoint)).user
  } catch (error) {
    if (error instanceof Unreached && error.status === 401) return undefined
    throw error
  }
}

function onlyAgent(
  listed: readonly ListedAgent[],
  { values, user, server }: { values: CliContext['values']; user: string; server: string },
): ListedAgent {
  const name = textOption(values, 'agent')
  const path = textOption(values, 'project')
  const found = listed.filter((each) => each.name === name && (path === undefined || each.project.path === path))
  const [first] = found
  if (first && found.length === 1) return first
  const names = listed.map((each) => `${each.project.path}:${each.name}`).join(', ') || 'none'
  const which = values.all ? 'no agent' : `not one agent ${name}`
  const near =
    first || name === undefined
      ? ''
      : didYouMean(
          name,
          listed.map((each) => each.name),
        )
  throw new Error(`${which} lets ${user} in at ${server}; there are: ${names}${near}`)
}

/** Repeats a question until `end` while kas does not know the new token yet. */
async function answeredBy<T>(end: number, ask: () => Promise<T>, clock: CliContext['clock']): Promise<T> {
  for (let pauseMs = firstPauseMs; ; pauseMs *= 2) {
    try {
      return await ask()
    } catch (error) {
      const isUnknown = error instanceof Unreached && error.status === 401
      if (!isUnknown || clock.now() + pauseMs > end) throw error
    }
    await new Promise<void>((resolve) => void clock.after(pauseMs, resolve))
  }
}

type ListedAgent = Pick<Agent, 'id' | 'name'> & { readonly project: Pick<Agent['project'], 'path'> }

function namedAgent({ values, directory }: CliContext): Agent {
  return agentNamed(directory, required(textOption(values, 'agent'), '--agent'), textOption(values, 'project'))
}

/** The caller of the kubeconfig, with a token that may not be in it yet. */
interface Caller {
  readonly token: string
  /** absent: the token comes from a file, or is printed */
  readonly onItsWay?: TokenOnItsWay | undefined
  readonly isNew?: boolean
}

async function callerOf(context: CliContext, files: KubeconfigFiles): Promise<Caller> {
  const { values, directory, clock, io } = context
  const file = textOption(values, 'token-file')
  if (file !== undefined) {
    return { token: await tokenFrom(file) }
  }
  const { id, username } = userNamed(directory, required(textOption(values, 'user'), '--user'))
  const onItsWay = files.main.name === undefined ? undefined : new TokenOnItsWay(files.main.real, id)
  const known = files.entries('user').flatMap(({ value }) => bearerOf(value)?.token ?? [])
  const waiting = await onItsWay?.read()
  const name = textOption(values, 'token-name') ?? hostname()
  const expires = expiresOption(values, clock)
  const request = { user: { id, username }, name, expires, newExpires: defaultEnd('user', clock), now: clock.now() }
  const {
    token,
    isNew,
    replaced,
    expires: end,
  } = machineToken(directory, waiting === undefined ? known : [...known, waiting], request)
  if (isNew && replaced > 0) {
    io.stderr.write(
      `note: the token ${name} of ${username} gives way to a new one: what holds the old one is let in no more (--token-name gives it one of its own)\n`,
    )
  }
  io.stderr.write(`the token ${name} of ${username} is ${isNew ? 'new' : 'there'}: ${endText(end)}\n`)
  return { token, onItsWay, isNew }
}

/**
 * Owner of a token; undefined: the directory does not know it. Jobs' tokens may replace one another, so they have one
 * owner.
 */
function ownerOf({ userTokens, jobTokens }: DirectoryContents, token: string): string | undefined {
  const hash = tokenHash(token)
  const user = userTokens.get(hash)?.owner
  return user ? `user ${user.username}` : jobTokens.has(hash) ? 'a job' : undefined
}

interface Addition {
  readonly agent: ListedAgent
  readonly server: string
  readonly cluster: Readonly<Record<string, string>>
  readonly files: KubeconfigFiles
  readonly caller: Caller
  readonly ownerOf: (token: string) => string | undefined
}

function addAgent({ values, io }: CliContext, { agent, server, cluster, files, caller, ownerOf }: Addition): void {
  const wanted = { agent, server, owner: ownerOf(caller.token), context: textOption(values, 'context') }
  const places = placesFor(wanted, { files, ownerOf })
  const namespace = textOption(values, 'namespace')
  const isThere = files.find('context', places.context) !== undefined
  files.put('cluster', places.cluster, cluster)
  files.put('user', places.user, { token: `${values.ci ? 'ci' : 'pat'}:${agent.id}:${caller.token}` })
  files.put('context', places.context, {
    cluster: places.cluster,
    user: places.user,
    ...(namespace === undefined ? {} : { namespace }),
  })
  if (files.currentContext === '') files.main.currentContext = places.context
  if (files.isPrinted) return
  const use = files.currentContext === places.context ? 'it is the current one' : `kubectl --context ${places.context}`
  io.stderr.write(`context ${places.context} ${isThere ? 'is there' : 'is new'}: ${use}\n`)
}

/** Writes the directory first: a kubeconfig with an unknown token is useless. */
async function write(context: CliContext, files: KubeconfigFiles, caller: Caller): Promise<string> {
  const { io } = context
  await commit(context, caller)
  if (files.isPrinted) return files.main.text
  const written = await files.write()
  await caller.onItsWay?.remove()
  for (const name of written) io.stderr.write(`kubeconfig written to ${name}\n`)
  for (const line of files.notes) io.stderr.write(`${line}\n`)
  return ''
}

async function commit(context: CliContext, { token, isNew, onItsWay }: Caller): Promise<void> {
  if (!isNew) return await context.commit()
  await onItsWay?.keep(token)
  try {
    await context.commit()
  } catch (error) {
    await onItsWay?.remove()
    throw error
  }
}
