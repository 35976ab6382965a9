import { entryAt } from '../../../../kubernetes/object.ts'
import { printable } from '../../../../lib/printable.ts'
import { approveAnnotation, pauseAnnotation, resyncAnnotation, saysYes } from '../../../../proto/gitops/annotations.ts'
import { askKas } from '../../../command/ask-kas.ts'
import { type Command, type CommandContext, parsedArgs, UsageError } from '../../../command/command.ts'
import { confirmed } from '../../../command/confirmed.ts'
import { endpointOf } from '../../../command/endpoint.ts'
import { objectOf, requireSource } from './named-source.ts'
import { askState, objectName, type ShownSource } from './state.ts'

/** Directive that people give a source by an annotation of its GitSync. */
interface Directive {
  readonly word: string
  /** sentence for `--help` */
  readonly purpose: string
  /**
   * Returns what is asked before the annotation is written.
   *
   * @param isPaused - as the annotation says: agentk reports it a little later
   * @throws Error: it has no effect on this source
   */
  question(source: ShownSource, name: string, isPaused: boolean): string
  /** @param now - ms since 1970 */
  annotations(source: ShownSource, now: number): Readonly<Record<string, string | null>>
  /** sentence about what follows */
  done(name: string): string
}

const options = {
  kubeconfig: { type: 'string' },
  context: { type: 'string' },
  agent: { type: 'string' },
  yes: { type: 'boolean', short: 'y' },
  help: { type: 'boolean', short: 'h' },
} as const

/** Objects that a question names. */
const maxNamed = 20
/** A plan is approved by somebody who sees what it deletes. */
const whoApproves = 'Somebody who may get them approves the plan'

const directives: readonly Directive[] = [
  {
    word: 'approve',
    purpose: 'lets a source delete the objects of the plan that kas gitops status shows',
    question: (source, name) => {
      const { plan = '', leaving = [], cut, withheld = 0 } = source
      if (plan === '') throw new Error(`${name} waits for no approval: it is ${source.phase}`)
      if (cut) throw new Error(`the plan of ${name} has more objects than kas shows: see kas gitops status -o json`)
      if (withheld > 0)
        throw new Error(`${withheld} objects of ${name} are not named: you may not get them. ${whoApproves}`)
      const lines = [`${name} deletes:`, ...leavingLines(leaving), `Approve plan ${plan} of ${name}?`]
      return lines.map(printable).join('\n') // a name with a line end would pass for lines of this list
    },
    annotations: ({ plan = '' }) => ({ [approveAnnotation]: plan }),
    done: (name) => `the plan of ${name} is approved: kas gitops status shows when it is done`,
  },
  {
    word: 'pause',
    purpose: 'has a source write nothing, until kas gitops resume',
    question: (_, name) => `Pause ${name}? agentk writes nothing of it until kas gitops resume ${name}.`,
    annotations: () => ({ [pauseAnnotation]: 'true' }),
    done: (name) => `${name} is paused: kas gitops resume ${name} ends that`,
  },
  {
    word: 'resume',
    purpose: 'ends the pause of a source',
    question: ({ phase, wanted }, name, isPaused) => {
      if (!isPaused) throw new Error(`${name} is not paused: it is ${phase}`)
      return `Resume ${name}? agentk applies ${wanted.slice(0, 8)}.`
    },
    annotations: () => ({ [pauseAnnotation]: null }),
    done: (name) => `${name} goes on: kas gitops status shows how far it is`,
  },
  {
    word: 'resync',
    purpose: 'has a source compare the cluster with its commit once more, and apply what differs',
    question: (_, name) => `Compare ${name} with the cluster now, and apply what differs?`,
    annotations: (_, now) => ({ [resyncAnnotation]: new Date(now).toISOString() }),
    done: (name) => `${name} is compared once more: kas gitops status shows the result`,
  },
]

function leavingLines(leaving: NonNullable<ShownSource['leaving']>): readonly string[] {
  const lines = leaving.slice(0, maxNamed).map(({ key, text }) => `  ${objectName(key)}${text && `: ${text}`}`)
  const more = leaving.length - maxNamed
  return more > 0 ? [...lines, `  and ${more} more`] : lines
}

const usageOf = ({ word }: Directive) => `gitops ${word} SOURCE [--agent ID] [--yes]`

/** Lines of `kas gitops --help` about these commands. */
export const directivesHelp = directives
  .map((directive) => `usage: kas ${usageOf(directive)}\n  ${directive.purpose}\n`)
  .join('')

/** The commands `kas gitops approve`, `pause`, `resume` and `resync`, by their word. */
export const directiveCommands: Readonly<Record<string, Command>> = Object.fromEntries(
  directives.map((directive) => [directive.word, commandOf(directive)]),
)

function commandOf(directive: Directive): Command {
  return { usage: usageOf(directive), name: 'gitops', options, run: (args, context) => run(directive, args, context) }
}

/** @throws UsageError, BadAnswer, Error with the answer of kas or the API server */
async function run(directive: Directive, args: readonly string[], context: CommandContext): Promise<number> {
  const { io, clock } = context
  const { values, positionals } = parsedArgs({ args: [...args], options, allowPositionals: true })
  if (values.help) {
    io.stdout.write(helpText(directive))
    return 0
  }
  const [, name, ...more] = positionals
  if (name === undefined || more.length > 0) throw new UsageError('allowed is one source')
  const endpoint = await endpointOf(values, context)
  const source = requireSource((await askState(endpoint)).sources, name)
  const object = objectOf(source, name)
  const live: unknown = JSON.parse(await askKas(endpoint, { method: 'GET', path: object }))
  const isPaused = saysYes(entryAt(live, 'metadata.annotations', pauseAnnotation))
  const question = directive.question(source, name, isPaused)
  if (!values.yes && !(await confirmed(question, io))) {
    io.stdout.write('nothing is changed\n')
    return 1
  }
  const annotations = directive.annotations(source, clock.now())
  await askKas(endpoint, { method: 'PATCH', path: object, patch: { metadata: { annotations } } })
  io.stdout.write(printable(directive.done(name)).concat('\n'))
  return 0
}

function helpText(directive: Directive): string {
  return `usage: kas ${usageOf(directive)}\n  ${directive.purpose}
  SOURCE                              name or id, as kas gitops status shows it
  --kubeconfig FILE, --context NAME   of kas, as kubectl takes them (default: KUBECONFIG of the environment)
  --agent ID                          another agent than the one that the kubeconfig's token names
  -y, --yes                           do not ask; needed where there is no terminal
  You need the right to get and patch the source's GitSync, or its ConfigMap where that kind is not installed.
  exit code: 0 done, 1 it failed, or you said no, 2 the command line is wrong
`
}
