import type { Scene } from '../stage.ts'

const path = '/api/v1/namespaces'

export const list: Scene = {
  name: 'list',
  title: 'A list through each replica',
  async play(stage) {
    const { holder } = await stage.holder()
    const answers = new Set<string>()
    for (const caller of [...stage.running.map((replica) => stage.caller(replica)), stage.balancer]) {
      const { status, body, tookMs } = await caller.ask(path)
      const names = status === 200 ? namesOf(body) : body
      answers.add(names)
      const what = caller.name === holder.name ? `${caller.name}, which holds the agent` : caller.name
      stage.say(`through ${what}: ${status}, ${Math.round(tookMs)} ms: ${names}`)
      stage.check(status === 200, `the list through ${caller.name} is answered with 200`)
    }
    stage.check(answers.size === 1, 'all lists are the same')
  },
}

function namesOf(body: string): string {
  const { items } = JSON.parse(body) as { items: { metadata: { name: string } }[] }
  return items.map(({ metadata }) => metadata.name).join(', ')
}
