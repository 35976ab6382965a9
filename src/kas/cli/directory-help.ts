import { outputChoice, outputs, outputTexts } from '../command/output.ts'
import type { DirectoryCommand } from './directory-command.ts'

/** Texts of the options: the form of a value, and its effect. Some commands have texts of their own. */
const explained: Readonly<Record<string, readonly [form: string, text: string]>> = {
  agent: ['NAME', 'the agent'],
  all: ['', 'all agents whose user_access lets the user in; a running kas says which'],
  branch: ['NAME', "of --git: the branch with the agent's configuration (default: what the repository says)"],
  ca: ['FILE', 'the authority that signed the certificate of the server, in PEM'],
  ci: ['', 'the token of --token-file is that of a CI job'],
  context: ['NAME', 'how the context is called (default: PROJECT:AGENT)'],
  environment: ['SLUG', 'the environment of the job; needs --tier'],
  'environment-name': ['NAME', 'its name, which ci_access compares (default: the slug)'],
  expires: ['END', 'when the token ends: 90d, a date such as 2027-01-01, a time, or never'],
  file: ['FILE', 'the kubeconfig; - is stdout (default: KUBECONFIG of the environment, else stdout)'],
  git: ['URL', 'adds the project too, with this repository'],
  'git-credentials': ['FILE', 'of --git with https: user:password, or a token alone'],
  job: ['ID', 'a token of this CI job'],
  keep: ['TIME', 'the old token stays valid for so long, such as 7d (default: it is void at once)'],
  namespace: ['NAME', 'the namespace of the context'],
  'no-color': ['', outputTexts['no-color']],
  'no-headers': ['', outputTexts['no-headers']],
  output: ['FORMAT', outputChoice(outputs)],
  pipeline: ['ID', 'the pipeline of the job'],
  project: ['PATH', 'the full path of the project of the agent'],
  quiet: ['', outputTexts.quiet],
  role: ['PATH=ROLE', 'a role in a project or group, may be repeated'],
  server: ['URL', 'where kubectl reaches kas: https://kas.example.com/k8s-proxy'],
  tier: ['TIER', 'of the environment: production, staging, testing, development or other'],
  'token-file': ['FILE', 'holds the token to use; nothing is changed in the directory'],
  'token-name': ['NAME', 'how the token is called in the directory'],
  user: ['NAME', 'the user'],
}

const defaultEnds = {
  agent: explainsEnd('without it the token never ends'),
  user: explainsEnd('default: 90d'),
  token: explainsEnd('default: 90d for a user, 1d for a job, never for an agent'),
  rotated: explainsEnd('default: as the old one; 90d for a user whose old one ends'),
}

function explainsEnd(text: string): readonly [string, string] {
  return ['END', `when the token ends: 90d, a date such as 2027-01-01, a time, or never (${text})`]
}

const others: Readonly<Record<string, Readonly<Record<string, readonly [form: string, text: string]>>>> = {
  'agent create': { expires: defaultEnds.agent },
  'agent rotate': { expires: defaultEnds.rotated, 'token-name': ['NAME', 'which one of several tokens'] },
  'token create': {
    expires: defaultEnds.token,
    agent: ['NAME', 'a token of this agent'],
    user: ['NAME', 'a token of this user; with --job, the user who has started the job'],
    project: ['PATH', 'the project of the agent, or of the job'],
  },
  'token list': { agent: ['NAME', 'of this agent alone'], user: ['NAME', 'of this user alone'] },
  'token rotate': { expires: defaultEnds.rotated },
  'user create': { expires: defaultEnds.user },
  'user rotate': { expires: defaultEnds.rotated, 'token-name': ['NAME', 'which one of several tokens'] },
  kubeconfig: {
    expires: defaultEnds.user,
    agent: ['NAME', 'the agent that is added'],
    user: ['NAME', 'whose token it is; a new one is written to the directory'],
    'token-name': ['NAME', 'how the token is called in the directory (default: the name of this host)'],
  },
}

const common: readonly (readonly [option: string, text: string])[] = [
  ['--directory FILE', 'the directory file (default: KAS_DIRECTORY_FILE of the environment)'],
  ['--print', 'say on stderr what to change in the file instead of writing it'],
]

const exitCodes = '  exit code: 0 done, 1 it failed, 2 the command line is wrong\n'

/** @param words - words of the command: `agent create` */
export function directoryHelp(words: string, command: DirectoryCommand): string {
  const own = Object.entries(command.options).map(([name, { short }]) => {
    const [form = '', text = ''] = others[words]?.[name] ?? explained[name] ?? []
    return [`${short === undefined ? '' : `-${short}, `}--${name}${form === '' ? '' : ` ${form}`}`, text] as const
  })
  return `${headOf(command)}${linesOf([...own, ...common])}${exitCodes}`
}

/** Help of all commands that begin with one word. */
export function overviewHelp(commands: readonly DirectoryCommand[]): string {
  const more = '  --help shows the options of each command: kas agent create --help\n'
  return `${commands.map(headOf).join('')}${linesOf(common)}${more}${exitCodes}`
}

function headOf({ usage, summary }: DirectoryCommand): string {
  return `usage: kas ${usage}\n  ${summary}\n`
}

function linesOf(options: readonly (readonly [option: string, text: string])[]): string {
  const width = Math.max(...options.map(([option]) => option.length))
  return options.map(([option, text]) => `  ${option.padEnd(width)}   ${text}\n`).join('')
}
