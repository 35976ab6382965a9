import t from 'tap'
import { runCli } from '../../../../src/kas/cli/cli.ts'
import { commandGroups } from '../../../../src/kas/cli/commands.ts'

/** The help of each command explains each of its options, and its exit codes. */

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
