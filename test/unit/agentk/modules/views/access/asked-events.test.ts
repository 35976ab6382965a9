import t from 'tap'
import { askEvents } from '../../../../../../src/agentk/modules/views/access/asked-events.ts'
import { KasError } from '../../../../../../src/lib/errors.ts'
import { ScriptedApi } from '../../../cluster/scripted-api.ts'
import { event } from '../kube-event.ts'

t.test('others are asked live, as the caller', async (t) => {
  const api = new ScriptedApi()
  const { signal } = new AbortController()
  const headers = ['Impersonate-User', 'ada']
  const found = askEvents(api, { namespace: 'shop', about: 'u-pod', limit: 50, headers }, signal)
  const ask = await api.ask('/api/v1/namespaces/shop/events')
  t.strictSame(ask.headers, headers)
  t.strictSame(Object.fromEntries(ask.query), { limit: '50', fieldSelector: 'involvedObject.uid=u-pod' })
  await ask.answer(200, { items: [event('a', 1, { type: 'Normal' }), event('b', 2), 'odd'] })
  t.match(await found, { rows: [{ u: 'u-b' }, { u: 'u-a', type: 'Normal' }], more: 0 })
  const denied = askEvents(api, { namespace: '', limit: 50, headers }, signal)
  await (await api.ask('/api/v1/events')).answer(403)
  t.equal(await denied, undefined)
  const odd = askEvents(api, { namespace: '../x', about: 'a,b=c\\', limit: 5, headers }, signal)
  odd.catch(() => undefined)
  const oddAsk = await api.ask('/api/v1/namespaces/..%2Fx/events')
  t.equal(oddAsk.query.get('fieldSelector'), 'involvedObject.uid=a\\,b\\=c\\\\')
  await oddAsk.answer(500)
  await t.rejects(odd, { code: 'UNREACHABLE', message: 'the API server answered 500 for events' })
})

t.test('the API server tells events by name: answers are read on to find the latest, so many at most', async (t) => {
  const api = new ScriptedApi()
  const { signal } = new AbortController()
  const asked = askEvents(api, { namespace: 'shop', limit: 2, headers: [] }, signal)
  const answer = async (items: object[], goOn?: string) => {
    const ask = await api.ask('/api/v1/namespaces/shop/events')
    await ask.answer(200, { metadata: { continue: goOn }, items })
    return ask.query.get('continue')
  }
  t.equal(await answer([event('a', 5), event('b', 1)], 'b+1'), null)
  t.equal(await answer([event('c', 9), event('d', 2)], 'd+1'), 'b+1')
  t.equal(await answer([event('e', 7)]), 'd+1')
  t.match(await asked, { rows: [{ u: 'u-c' }, { u: 'u-e' }], more: 3 })
  const endless = askEvents(api, { namespace: 'shop', limit: 2, headers: [] }, signal)
  for (let i = 0; i < 4; i++) await answer([event(`f${i}`, i)], 'on')
  t.match(await endless, { rows: [{ u: 'u-f3' }, { u: 'u-f2' }], more: 3 }, 'one at least was not read')
})

t.test('an answer that is too large is asked for again with fewer events', async (t) => {
  const api = new ScriptedApi()
  const tooLarge = new KasError({ code: 'MESSAGE_TOO_LARGE', bytes: 2, maxBytes: 1 })
  const asked = askEvents(api, { namespace: 'shop', limit: 50, headers: [] }, new AbortController().signal)
  const ask = () => api.ask('/api/v1/namespaces/shop/events')
  await (await ask()).fail(tooLarge)
  const fewer = await ask()
  t.equal(fewer.query.get('limit'), '5')
  await fewer.answer(200, { metadata: { continue: 'on' }, items: [event('a', 1)] })
  await (await ask()).fail(tooLarge)
  const one = await ask()
  t.strictSame([one.query.get('limit'), one.query.get('continue')], ['1', 'on'])
  await one.answer(200, { metadata: { continue: 'on', remainingItemCount: 7 }, items: [event('b', 2)] })
  t.match(await asked, { rows: [{ u: 'u-b' }, { u: 'u-a' }], more: 7 })
})
