import t from 'tap'
import { KnownMessages } from '../../../../src/call/known-messages.ts'
import { Gitops } from '../../../../src/proto/gen/gitops_questions_pb.ts'
import { methodPath } from '../../../../src/proto/unary.ts'
import { callMessages } from './drift-questions.ts'
import { followSource, mapOf } from './followed-source.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { askForPreview, nameOf, previewRequest, RecordingClient } from './preview-questions.ts'

/** Previews that end at each of their calls, and previews beside rounds. */

const collections = ['configmaps', 'secrets', 'services'].map((plural) => `/api/v1/namespaces/shop/${plural}`)

/** Versions of all objects. */
async function versionsOf({ client }: Ground): Promise<unknown> {
  const lists = await Promise.all(collections.map((path) => client.json('GET', path)))
  return lists.map(({ body }) =>
    // biome-ignore lint/suspicious/noExplicitAny: the shape is the API server's
    (body as any).items.map(({ metadata }: any) => [metadata.name, metadata.uid, metadata.resourceVersion]),
  )
}

t.test('killed', { skip, timeout: 600_000 }, async (t) => {
  const ground = await Ground.start(t)
  const client = RecordingClient.start(t, ground)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const service = '{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}]}}'
  const files = { 'a.json': mapOf('a'), 'b.json': mapOf('b'), 'c.json': mapOf('c'), 'service.yaml': service }
  const {
    methods,
    id: source,
    project,
    becomesSynced,
    state,
  } = await followSource(t, ground, files, { projectId: 510n, client })
  const change = {
    'a.json': mapOf('a', '2'),
    'b.json': files['b.json'],
    'service.yaml': service.replace('80', '99999'),
    'new.json': mapOf('new'),
  }
  const ask = async (auditId: string) => {
    const { objects, text } = await askForPreview(methods(), change, { source, auditId })
    return { names: objects.map(nameOf), text: text.replace(/"atMs":"\d+"/, '') }
  }
  await ask('first') // it asks about rights, which are kept
  const usual = await ask('usual')
  const calls = client.of('usual').length
  const before = await versionsOf(ground)

  await t.test('a call that fails ends the preview, or is told of its object', async (t) => {
    for (let at = 0; at < calls; at++) {
      const auditId = `fails-${at}`
      client.onCall = () => {
        if (client.of(auditId).length === at + 1) throw new Error('the connection is cut')
      }
      const ended = await ask(auditId).then(
        ({ names }) => names,
        (error: Error) => error,
      )
      const isTold = ended instanceof Error || ended.some((name) => name.startsWith('fails'))
      t.ok(isTold, `call ${at}: ${JSON.stringify(ended)}`)
      client.onCall = () => undefined
      t.strictSame(await versionsOf(ground), before)
      t.strictSame(await ask(`after-${at}`), usual)
    }
  })

  await t.test('a caller that leaves at a call leaves nothing behind', async (t) => {
    for (let at = 0; at < calls; at++) {
      const auditId = `leaves-${at}`
      const leaves = new AbortController()
      client.onCall = () => {
        if (client.of(auditId).length === at + 1) leaves.abort(new Error('the caller has left'))
      }
      const request = new KnownMessages(previewRequest(change, { source, auditId }))
      await t.rejects(callMessages(methods(), methodPath(Gitops.method.preview), request, leaves.signal))
      client.onCall = () => undefined
      t.strictSame(await versionsOf(ground), before)
      t.strictSame(await ask(`stayed-${at}`), usual)
    }
  })

  await t.test('rounds go on beside previews', async (t) => {
    let isOver = false
    const previews = (async () => {
      let answers = 0
      for (; !isOver; answers++) await ask(`beside-${answers}`)
      return answers
    })()
    for (let commit = 0; commit < 5; commit++) {
      project.push({ ...files, 'c.json': mapOf('c', String(commit)) })
      await becomesSynced()
    }
    isOver = true
    t.ok((await previews) > 0)
    t.equal((await ground.get(keyOf('ConfigMap', 'c'))).data.value, '4')
    t.equal(state()?.problem, '')
    t.equal(await ground.get(keyOf('ConfigMap', 'new')), undefined)
  })
})
