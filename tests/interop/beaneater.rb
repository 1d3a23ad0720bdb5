# SPDX-License-Identifier: MIT
# beaneater.rb HOST:PORT - the story of README.md, told by Ruby's beaneater.
require 'beaneater'

ADDRESS = ARGV.fetch(0)
STATS = { passed: 0, failed: 0 }

def check(sentence, holds)
  STATS[holds ? :passed : :failed] += 1
  puts "FAIL beaneater: #{sentence}" unless holds
end

def equal(sentence, got, want)
  check("#{sentence} (wanted #{want.inspect[0, 200]}, got #{got.inspect[0, 200]})", got == want)
end

def refused(sentence, error)
  yield
  check("#{sentence} (nothing was raised)", false)
rescue error
  check(sentence, true)
end

def seconds
  Process.clock_gettime(Process::CLOCK_BOOTTIME)
end

def not_before(sentence, least)
  start = seconds
  result = yield
  check("#{sentence}, not before #{least} s", seconds - start >= least - 0.001)
  result
end

# A connection of its own, using and watching only the tube of one chapter.
def connect(tube)
  client = Beaneater.new(ADDRESS)
  client.tubes.use(tube)
  client.tubes.watch!(tube)
  client
end

def put(client, tube, body, options = {})
  client.tubes[tube].put(body, options)[:id].to_i
end

def take(client, timeout = 10)
  client.tubes.reserve(timeout)
end

def empty?(client)
  take(client, 0)
  false
rescue Beaneater::TimedOutError
  true
end

def tell_cycle
  client = connect('eater-cycle')
  first = put(client, 'eater-cycle', 'one')
  second = put(client, 'eater-cycle', 'two', pri: 7, ttr: 90)
  check('ids rise', second > first)
  job = take(client)
  equal('a smaller priority comes first', [job.id.to_i, job.body], [second, 'two'])
  stats = job.stats
  equal('a job says what it was put with', [stats.pri, stats.ttr, stats.delay], [7, 90, 0])
  equal('a job says where it is', [stats.id, stats.tube, stats.state], [second, 'eater-cycle', 'reserved'])
  check('a lease has time left', stats.time_left.between?(0, 90))
  job.delete
  check('a deleted job is gone', client.jobs.find(second).nil?)
  refused('a job is deleted once', Beaneater::NotFoundError) { job.delete }
  refused('a job that is gone has no stats', Beaneater::NotFoundError) { job.stats }
  equal('the other job comes next', take(client).delete[:status], 'DELETED')
  check('then there is none', empty?(client))
  client.close
end

def tell_tubes
  client = Beaneater.new(ADDRESS)
  equal('the tube used at first', client.tubes.used.name, 'default')
  equal('the tubes watched at first', client.tubes.watched.map(&:name), ['default'])
  client.tubes.use('eater-tubes')
  equal('the tube used', client.tubes.used.name, 'eater-tubes')
  client.tubes.watch('eater-tubes', 'eater-other')
  equal('the tubes watched', client.tubes.watched.map(&:name).sort, %w[default eater-other eater-tubes])
  client.tubes.ignore('default', 'eater-other')
  equal('a tube is ignored', client.tubes.watched.map(&:name), ['eater-tubes'])
  refused('the last tube is not ignored', Beaneater::NotIgnoredError) { client.tubes.ignore('eater-tubes') }
  check('the list of tubes has it', client.tubes.all.map(&:name).include?('eater-tubes'))
  refused('a bad name', Beaneater::InvalidTubeName) { client.tubes.use('-bad') }
  refused('a tube that is not there has no stats', Beaneater::NotFoundError) { client.tubes['eater-none'].stats }
  client.close
end

def tell_bodies
  client = connect('eater-bodies')
  bytes = (0..255).to_a.pack('C*')
  bodies = { 'every byte' => bytes + bytes.reverse, 'line ends' => "a\r\nb\r\n\r\n", 'nothing' => '',
             'a put within' => "put 0 0 10 3\r\nabc\r\n", 'the largest' => (bytes * 256)[0, 65_535] }
  bodies.each do |what, body|
    id = put(client, 'eater-bodies', body.b)
    peeked = client.jobs.find(id)
    check("#{what}: peek shows the body", peeked.body.to_s.b == body.b)
    job = take(client)
    check("#{what}: reserve gives the body", job.id.to_i == id && job.body.to_s.b == body.b)
    job.delete
  end
  refused('a job that is too big', Beaneater::JobTooBigError) { put(client, 'eater-bodies', 'x' * 65_536) }
  equal('the connection goes on after that', client.tubes.used.name, 'eater-bodies')
  client.close
end

def tell_delay
  client = connect('eater-delay')
  tube = client.tubes['eater-delay']
  id = put(client, 'eater-delay', 'later', delay: 100)
  equal('a delayed job is seen', tube.peek(:delayed).id.to_i, id)
  check('a delayed job is not ready', tube.peek(:ready).nil?)
  check('nor is it given', empty?(client))
  equal('its state', client.jobs.find(id).stats.state, 'delayed')
  equal('kick makes it ready', tube.kick(10)[:id], '1')
  equal('it is ready', tube.peek(:ready).id.to_i, id)
  take(client).delete
  not_before('a delay ends', 1) do
    put(client, 'eater-delay', 'soon', delay: 1)
    equal('reserve waits for it', client.tubes.reserve.body, 'soon')
  end
  client.close
end

def tell_release
  client = connect('eater-release')
  tube = client.tubes['eater-release']
  id = put(client, 'eater-release', 'again')
  take(client).release(pri: 3, delay: 0)
  equal('a released job is ready', tube.peek(:ready).id.to_i, id)
  job = take(client)
  not_before('a release with a delay', 1) do
    job.release(pri: 4, delay: 1)
    equal('it is delayed', job.stats.state, 'delayed')
    job = take(client)
  end
  stats = job.stats
  equal('its counts', [stats.pri, stats.releases, stats.reserves], [4, 2, 3])
  job.touch
  equal('touch keeps it reserved', job.stats.state, 'reserved')
  job.delete
  refused('a job that is gone is not touched', Beaneater::NotFoundError) { client.connection.transmit("touch #{id}") }
  refused('nor released', Beaneater::NotFoundError) { client.connection.transmit("release #{id} 0 0") }
  client.close
end

def tell_bury
  client = connect('eater-bury')
  tube = client.tubes['eater-bury']
  ids = (1..3).map { |i| put(client, 'eater-bury', i.to_s) }
  3.times { take(client).bury(pri: 9) }
  equal('the oldest burial is seen', tube.peek(:buried).id.to_i, ids[0])
  job = client.jobs.find(ids[1])
  equal('a buried job', [job.stats.state, job.stats.buries, job.stats.pri], ['buried', 1, 9])
  equal('kick-job', job.kick[:status], 'KICKED')
  equal('it is ready', tube.peek(:ready).id.to_i, ids[1])
  equal('it was kicked', job.stats.kicks, 1)
  equal('kick takes the rest', tube.kick(10)[:id], '2')
  check('none is buried', tube.peek(:buried).nil?)
  refused('a ready job is not kicked', Beaneater::NotFoundError) { job.kick }
  equal('all come', 3.times.map { take(client).delete[:status] }, ['DELETED'] * 3)
  client.close
end

def tell_stats
  client = connect('eater-stats')
  put(client, 'eater-stats', 'x', pri: 1)
  put(client, 'eater-stats', 'y', delay: 100)
  stats = client.tubes['eater-stats'].stats
  equal('the counts of a tube', [stats.name, stats.current_jobs_ready, stats.current_jobs_urgent, stats.current_jobs_delayed,
                                 stats.current_jobs_reserved, stats.current_jobs_buried, stats.total_jobs],
        ['eater-stats', 1, 1, 1, 0, 0, 2])
  equal('who is there', [stats.current_using, stats.current_watching, stats.current_waiting], [1, 1, 0])
  all = client.stats
  check('the counts of the server', all.current_jobs_ready >= 1 && all.total_jobs >= 2 && all.cmd_put >= 2)
  equal('the largest job', all.max_job_size, 65_535)
  check('its connections', all.current_connections >= 1 && all.total_connections >= all.current_connections)
  check('it says what it is', all.version.to_s != '' && all.pid.positive? && all.uptime >= 0)
  client.tubes['eater-stats'].clear
  client.close
end

def tell_pause
  client = connect('eater-pause')
  tube = client.tubes['eater-pause']
  put(client, 'eater-pause', 'x')
  tube.pause(100)
  check('a paused tube gives nothing', empty?(client))
  equal('it says so', [tube.stats.pause, tube.stats.cmd_pause_tube], [100, 1])
  not_before('a pause ends', 1) do
    tube.pause(1)
    equal('then it gives', client.tubes.reserve.delete[:status], 'DELETED')
  end
  refused('a tube that is not there is not paused', Beaneater::NotFoundError) { client.tubes['eater-none'].pause(1) }
  client.close
end

def tell_waiting
  client = connect('eater-waiting')
  not_before('a timeout', 1) do
    refused('nothing comes', Beaneater::TimedOutError) { take(client, 1) }
  end
  put(client, 'eater-waiting', 'x', ttr: 2)
  job = nil
  not_before('the last second of a lease', 1) do
    job = take(client)
    refused('is told', Beaneater::DeadlineSoonError) { take(client) }
  end
  job.delete
  other = connect('eater-waiting')
  waiter = Thread.new { take(other).body }
  sleep 0.05 until client.tubes['eater-waiting'].stats.current_waiting == 1
  put(client, 'eater-waiting', 'for the other')
  equal('a put wakes a waiting connection', waiter.value, 'for the other')
  check('the job of another is not given', empty?(client))
  other.close
  job = take(client)
  equal('a job goes back when its connection closes', job.body, 'for the other')
  job.delete
  client.close
end

tell_cycle
tell_tubes
tell_bodies
tell_delay
tell_release
tell_bury
tell_stats
tell_pause
tell_waiting
puts "#{STATS[:passed]} passed, #{STATS[:failed]} failed"
exit STATS[:failed].zero? ? 0 : 1
