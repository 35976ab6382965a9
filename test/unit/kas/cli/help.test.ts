import t from 'tap'
import { runCli } from '../../../../src/kas/cli/cli.ts'
import { commandGroups } from '../../../../src/kas/cli/commands.ts'
import { usage } from '../../../../src/kas/cli/program.ts'

/** The help of each command explains each of its options and lists its exit codes. */

async function helpOf(words: string): Promise<string> {
  let stdout = ''
  const io = {
    env: {},
    stdout: {
      write: (part: string) => {
        stdout += part
      },
    },
    stderr: { write: (part: string) => t.fail(`${words}: ${part}`) },
    stdin: (async function* () {})(),
  }
  t.equal(await runCli([...words.split(' '), '--help'], io), 0, words)
  return stdout
}

for (const { words, load } of commandGroups.flatMap(({ commands }) => commands)) {
  t.test(`kas ${words} --help`, async (t) => {
    const { options } = await load()
    const lines = (await helpOf(words)).split('\n')
    const explained = (name: string) => {
      const option = new RegExp(`^ +(-\\w, |.*, )?--${name}( [^ ].*?)?( {2,}|, --).*\\w`)
      return lines.some((line) => option.test(line))
    }
    for (const name of Object.keys(options)) {
      if (name !== 'help') t.ok(explained(name), `--${name} is explained:\n${lines.join('\n')}`)
    }
    t.ok(
      lines.some((line) => /^ +exit codes?: 0/.test(line)),
      `exit codes:\n${lines.join('\n')}`,
    )
  })
}

t.test('kas status explains its columns', async (t) => {
  const help = await helpOf('status')
  for (const column of ['REPLICA', 'STATE', 'VERSION', 'ADDRESS', 'REACH', 'GOSSIP', 'CALLS', 'ROW', 'AGENTS']) {
    t.match(help, new RegExp(`^ +${column} .*\\w`, 'm'))
  }
  for (const column of ['CONNECTIONS', 'PODS', 'AGENT', 'HOLDER', 'RANK']) {
    t.match(help, new RegExp(`^ +${column}\\b.*\\w`, 'm'))
  }
})

t.test('kas --help sorts commands by task', (t) => {
  t.equal(
    usage(commandGroups),
    `Usage: kas --configuration-file=<file>
       kas COMMAND ...

See what runs in a cluster:
  kas tree                        show objects below what owns them, with their health and its cause
  kas get KIND                    list objects with their health and its cause, the worst first
  kas health                      judge the health of objects, or wait for it, as a gate of a pipeline

Reach a cluster:
  kas agents                      list the agents that let you in
  kas kubeconfig                  add agents to a kubeconfig

GitOps:
  kas gitops status               show the status of an agent's sources, or wait for a commit
  kas gitops wait                 wait until a commit is in the cluster and its objects are healthy
  kas diff [DIR]                  show what a change would do to the cluster, before it is merged
  kas gitops drift SOURCE         show what differs between Git and the cluster, field by field
  kas gitops hold KIND/NAME       keep a change by hand for a time, although Git has it otherwise
  kas gitops approve SOURCE       approve the deletions of a source; also pause, resume, resync SOURCE
  kas gitops forget SOURCE        keep what a removed source has made, and forget the source

Administer:
  kas views role                  print the rights that agentk needs to show more
  kas agent                       list and edit agents in a directory file
  kas user                        list and edit users in a directory file
  kas token                       list and edit tokens of agents, users and CI jobs in a directory file
  kas sessions                    list requests that last, at all replicas, and end them
  kas completion bash|zsh|fish    print the script by which a shell completes words and options

Diagnose:
  kas status                      show the replicas, and which of them has which agent
  kas route                       show which way a call for an agent would go, and the reason
  kas log                         show who did what
  kas check-config                check whether files of kas, of agents and of the directory can be used
  kas doctor                      check what a configuration names, and show what is wrong and what to do

kas COMMAND --help explains the options and exit codes of a command.

Options:
  --configuration-file <file>   YAML, deploy/config.example.yaml shows every key
  --log-format json|text        of the log on stderr; text is for people (default: observability.logging.format)
  --version                     print the version and exit
  --help                        print this and exit
`,
  )
  t.end()
})
